"""What is compared: plain functions that a reader can lay side by side, and their one registry."""

from onehot.implementations import (  # noqa: F401  (importing registers them)
    gather,
    kernels,
    ladder,
    loops,
    peers,
    products,
    published,
    training,
    transfers,
)
from onehot.implementations.registry import Implementation, entries, find, get, implementation, names, task_of

__all__ = ["Implementation", "entries", "find", "get", "implementation", "names", "task_of"]
