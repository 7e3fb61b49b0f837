"""Names of the backends and where each lives; importing this imports no array library."""

import importlib
from typing import TYPE_CHECKING

from onehot.errors import StudyError, nearest

if TYPE_CHECKING:
    from onehot.backends.base import Backend

MODULES = {
    "numpy": "onehot.backends.numpy_backend",
    "cupy": "onehot.backends.cupy_backend",
}

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
    backend: Backend = importlib.import_module(MODULES[name]).create()
    return backend
