"""What is compared: plain functions that a reader can lay side by side, and their one registry."""

from onehot.implementations import gather, loops, products, published  # noqa: F401  (importing registers them)
from onehot.implementations.registry import Implementation, entries, find, get, implementation, names

__all__ = ["Implementation", "entries", "find", "get", "implementation", "names"]
