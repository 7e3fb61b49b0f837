"""Names of the backends and where each lives; importing this imports no array library."""

import importlib
from typing import TYPE_CHECKING

from onehot.errors import StudyError, nearest

if TYPE_CHECKING:
    from onehot.backends.base import Backend

MODULES = {
    "numpy": "onehot.backends.numpy_backend",
    "cupy": "onehot.backends.cupy_backend",
    "numba": "onehot.backends.numba_backend",
    "torch_cpu": "onehot.backends.torch_backend",
    "torch_cuda": "onehot.backends.torch_backend",
    "jax_cpu": "onehot.backends.jax_backend",
    "jax_cuda": "onehot.backends.jax_backend",
}

CREATORS = {
    "torch_cpu": "create_cpu",
    "torch_cuda": "create_cuda",
    "jax_cpu": "create_cpu",
    "jax_cuda": "create_cuda",
}
"""The function that returns the backend, where its module holds two; elsewhere it is ``create``."""

ON_DEVICE = frozenset({"cupy", "torch_cuda", "jax_cuda"})


def on_device(name: str) -> bool:
    """Return whether a backend computes on a GPU, as a scheduler must know before any job starts."""
    return name in ON_DEVICE


def names() -> list[str]:
    """Names of all backends."""
    return list(MODULES)


def load(name: str) -> "Backend":
    """Import the module of a backend and return its one instance.

    Raises
    ------
    StudyError
        No backend has that name.
    UnavailableError
        The backend cannot run here; the message says why.
    """
    if name not in MODULES:
        raise StudyError(f"backend {name!r} is unknown{nearest(name, names())}; known: {', '.join(names())}")
    backend: Backend = getattr(importlib.import_module(MODULES[name]), CREATORS.get(name, "create"))()
    return backend
