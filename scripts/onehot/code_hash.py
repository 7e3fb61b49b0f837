"""A hash of the code that a measurement depends on.

Snakemake notices an edited script, not an edited module.
"""

import ast
import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from onehot import implementations
from onehot.backends import registry as backends

LIBRARY = Path(__file__).parent

NOT_MEASURING = frozenset({"onehot", "onehot.errors", "onehot.machine", "onehot.implementations"})
"""They describe or report.

An edit changes no measured time. The package of implementations imports all of them, and a measurement
depends on its own alone.
"""


def measurement_hash(backend: str, implementation: str) -> str:
    """Return the hash of every module that times this implementation on this backend."""
    return modules_hash(
        (
            "measure",
            "onehot.implementations.registry",
            backends.MODULES[backend],
            implementations.get(implementation, backend).module,
        )
    )


@functools.cache
def modules_hash(roots: tuple[str, ...]) -> str:
    """Return a hash over the text of the modules and of all that they import of this library."""
    digest = hashlib.sha256()
    for name in sorted(_closure(roots)):
        digest.update(name.encode() + b"\0" + _path(name).read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def files(roots: Iterable[str]) -> list[Path]:
    """Return the files of the modules and of all that they import of this library, sorted."""
    return sorted(_path(name) for name in _closure(roots))


def _closure(roots: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found and name not in NOT_MEASURING:
            found.add(name)
            waiting.extend(_imports(name))
    return found


@functools.cache
def _imports(name: str) -> tuple[str, ...]:
    """Names of this library's modules that a module imports, anywhere in its text."""
    found: list[str] = []
    for node in ast.walk(ast.parse(_path(name).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "onehot":
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [one for one in inside if _exists(one)] or [node.module]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] == "onehot"]
    return tuple(found)


def _exists(name: str) -> bool:
    return _path(name).exists()


def _path(name: str) -> Path:
    base = LIBRARY.parent.joinpath(*name.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
