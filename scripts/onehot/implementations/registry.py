"""The one registry of implementations. Importing it imports no array library.

Planning a study stays cheap.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from onehot.errors import StudyError, nearest
from onehot.variant import ITEM_BYTES, Variant

ONE_HOT = "one_hot"
INDICES = "indices"
CSR = "csr"
HOST_INDICES = "host_indices"
PINNED_INDICES = "pinned_indices"
FIRST_POSITIONS = "first_positions"
"""Of each of the E tokens, the first place in the batch that holds it.

The indices of the published geometry.
"""

GROUP_BYTES = 2 << 30
"""Results of one group at most: their check on the host takes longer than all that is timed."""

LOOKUP, SCATTER, STEP = "lookup", "scatter", "step"
"""What an implementation does: the forward pass, its gradient's way back, or a whole training step."""

READS = (ONE_HOT, INDICES, CSR, HOST_INDICES, PINNED_INDICES, FIRST_POSITIONS)


def nothing(variant: Variant) -> int:
    """No temporary memory beyond inputs and result."""
    return 0


@dataclass(frozen=True)
class Implementation:
    """A plain function and what the study must know about it.

    Attributes
    ----------
    name : as the configuration writes it.
    task : ``LOOKUP``, or ``SCATTER`` or ``STEP``, which change W0 in place: only equals are compared.
    geometry : the geometry whose result it computes.
    reads : which form of the minibatch it takes, one of ``READS``.
    backends : names of the backends that run this function.
    function : ``function(xp, W0, minibatch, *prepared) -> h``.
    prepare : ``prepare(backend, variant, W0) -> tuple``, run once outside the clock.
    temporaries : bytes it holds at its peak beyond W0, the minibatch and one result.
    synchronises : it waits for the device inside the call, so its device time cannot be held and measured.
    threaded : its time depends on a thread count, which the sweep then varies.
    check : ``check(backend, variant, result, W0, J, prepared)`` refuses a wrong result in place of the
        comparison with W0[J]; W0 as it was before the call, on the host.
    minibatches_per_call : over 1, a call serves a group of G minibatches, G of them at most: it takes J of
        shape (G, m), returns G results, and its time is divided by G.
    """

    name: str
    geometry: str
    reads: str
    backends: tuple[str, ...]
    function: Callable[..., Any]
    prepare: Callable[..., tuple[Any, ...]] | None
    temporaries: Callable[[Variant], int]
    synchronises: bool
    threaded: bool
    minibatches_per_call: int = 1
    task: str = LOOKUP
    check: Callable[..., None] | None = None

    @property
    def module(self) -> str:
        """Name of the module that defines the function; its text is part of the measurement's code hash."""
        return self.function.__module__

    @property
    def grouped(self) -> bool:
        """Whether a call takes a group of minibatches, even where it is a group of one."""
        return self.minibatches_per_call > 1

    def group(self, variant: Variant) -> int:
        """Return G: as many minibatches as a call may serve, or as have results of `GROUP_BYTES` together."""
        return min(self.minibatches_per_call, max(1, GROUP_BYTES // variant.result_bytes))

    def input_bytes(self, variant: Variant) -> int:
        """Bytes of one minibatch in the form that this implementation reads."""
        if self.reads == ONE_HOT:
            item = 8 if variant.geometry == "published" else ITEM_BYTES[variant.dtype]
            return variant.minibatch * variant.one_hot_columns * item
        if self.reads == CSR:
            return variant.minibatch * (ITEM_BYTES[variant.dtype] + 8) + 8
        count = variant.embedding if self.reads == FIRST_POSITIONS else variant.minibatch
        return count * ITEM_BYTES[variant.index_dtype]

    def peak_bytes(self, variant: Variant, index_sets: int) -> int:
        """Predicted peak memory of a measurement: W0, the rotated inputs, two results, the temporaries."""
        inputs = index_sets * self.group(variant) * self.input_bytes(variant)
        return variant.table_bytes + inputs + 2 * variant.result_bytes + self.temporaries(variant)


_REGISTRY: dict[tuple[str, str], Implementation] = {}


def implementation(
    *,
    geometry: str,
    reads: str,
    backends: tuple[str, ...],
    name: str = "",
    prepare: Callable[..., tuple[Any, ...]] | None = None,
    temporaries: Callable[[Variant], int] = nothing,
    synchronises: bool = False,
    threaded: bool = False,
    minibatches_per_call: int = 1,
    task: str = LOOKUP,
    check: Callable[..., None] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a plain function as an implementation; the function itself is returned unchanged."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        entry = Implementation(
            name=name or function.__name__,
            geometry=geometry,
            reads=reads,
            backends=backends,
            function=function,
            prepare=prepare,
            temporaries=temporaries,
            synchronises=synchronises,
            threaded=threaded,
            minibatches_per_call=minibatches_per_call,
            task=task,
            check=check,
        )
        for backend in backends:
            if (entry.name, backend) in _REGISTRY:
                raise StudyError(f"implementation {entry.name!r} is registered twice for backend {backend!r}")
            _REGISTRY[entry.name, backend] = entry
        return function

    return register


def names() -> list[str]:
    """Names of all implementations in the order in which their modules define them."""
    return list(dict.fromkeys(name for name, _ in _REGISTRY))


def entries() -> Iterator[tuple[str, Implementation]]:
    """Yield every (backend, implementation) pair."""
    for (_, backend), entry in _REGISTRY.items():
        yield backend, entry


def find(name: str, backend: str) -> Implementation | None:
    """Return the implementation of that name on that backend; None where the backend does not run it."""
    if not any(known == name for known, _ in _REGISTRY):
        raise StudyError(
            f"implementation {name!r} is unknown{nearest(name, names())}; known: {', '.join(names())}"
        )
    return _REGISTRY.get((name, backend))


def get(name: str, backend: str) -> Implementation:
    """Return the implementation of that name on that backend.

    Raises
    ------
    StudyError
        The name is unknown, or the backend does not run it.
    """
    entry = find(name, backend)
    if entry is None:
        where = sorted(b for n, b in _REGISTRY if n == name)
        raise StudyError(
            f"implementation {name!r} does not run on backend {backend!r}; it runs on {', '.join(where)}"
        )
    return entry


def task_of(name: str) -> str:
    """Return what the implementations of a name do; a name that is not registered counts as a lookup."""
    return next((entry.task for (known, _), entry in _REGISTRY.items() if known == name), LOOKUP)
