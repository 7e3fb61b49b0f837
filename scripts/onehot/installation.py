"""What decides whether a backend runs here and can change between two runs: a change asks it again."""

import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any

NVRTC = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc-cu13")
"""The compiler that CuPy needs, where it comes as a package: ``cupy-cuda12x[ctk]`` installs one."""

DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg")
"""The driver's device on Linux, and on WSL."""

PACKAGES = {
    "numpy": ("numpy", "scipy"),
    "cupy": ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "numpy", *NVRTC),
    "numba": ("numba", "numpy"),
    "torch_cpu": ("torch",),
    "torch_cuda": ("torch",),
    "jax_cpu": ("jax", "jaxlib"),
    "jax_cuda": ("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin"),
}
"""Packages whose versions decide whether a backend runs."""


WITNESSES = {"cupy": "cuda-bench", "numpy": "pyperf"}
"""The package whose benchmark is the outside witness of each backend."""


def witness(backend: str) -> str | None:
    """Return the version of a backend's witness; None where it is not installed."""
    return _version(WITNESSES[backend])


def found(backend: str) -> dict[str, Any]:
    """Return the versions of a backend's packages, which GPUs are visible, and whether a driver is there."""
    return {
        "packages": {name: _version(name) for name in PACKAGES[backend]},
        "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "driver": any(os.path.exists(path) for path in DRIVER_FILES),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
