"""From a variant to checked calls.

Inputs on the backend, preparation outside the clock, correctness before time.
"""

import functools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from onehot import implementations
from onehot.backends.base import Backend
from onehot.clocks import Call
from onehot.errors import WrongResultError
from onehot.implementations.registry import (
    CSR,
    FIRST_POSITIONS,
    HOST_INDICES,
    INDICES,
    LOOKUP,
    ONE_HOT,
    PINNED_INDICES,
    Implementation,
)
from onehot.problem import Array, Problem, first_positions, one_hot
from onehot.variant import Variant

CHECK_SET = 1_000_000
"""Number of the index set that is only checked, never timed: no sampled index set reaches it."""


@dataclass(frozen=True)
class Prepared:
    """A variant ready to be timed.

    Attributes
    ----------
    calls : one call an index set; the rotation walks over them.
    tokens : the index sets, on the host.
    build_seconds : time to make each minibatch in the form the implementation reads, transfer included.
    prepare_seconds : time of the implementation's own preparation; None where it has none.
    first_call_seconds : the first call in this process, synchronised.
    """

    calls: list[Call]
    tokens: list[Array]
    build_seconds: list[float]
    prepare_seconds: float | None
    first_call_seconds: float


def index_sets(entry: Implementation, variant: Variant, wanted: int, input_bytes: int) -> int:
    """Return how many index sets to rotate: as wanted, or as many as fit in ``input_bytes``, one at least.

    Rotation keeps caches from holding one index set; an input larger than ``input_bytes`` is larger than
    any cache.
    """
    fitting = input_bytes // max(entry.group(variant) * entry.input_bytes(variant), 1)
    return min(wanted, max(1, fitting))


def prepare(backend: Backend, problem: Problem, sets: int) -> Prepared:
    """Build the inputs, prepare.

    Check against the reference with an index set of its own, and return the calls.

    Raises
    ------
    WrongResultError
        The result differs from the reference in shape, dtype or a single bit; nothing is timed.
    """
    variant = problem.variant
    entry = implementations.get(variant.implementation, variant.backend)
    host_W0 = problem.weights()
    # A training step changes W0, and NumPy's backend hands the host's own array on.
    W0 = backend.from_host(host_W0 if entry.task == LOOKUP else host_W0.copy())
    prepared, prepare_seconds = _run_preparation(backend, entry, variant, W0)

    def bind(minibatch: Any) -> Call:
        return functools.partial(entry.function, backend.xp, W0, minibatch, *prepared)

    first_call_seconds = _check(backend, bind, problem, host_W0, entry, prepared)
    group = entry.group(variant)
    tokens = [problem.tokens(number) for number in range(sets * group)]
    calls, build_seconds = [], []
    for first in range(0, len(tokens), group):
        start = time.perf_counter()
        minibatch = _form_group(backend, problem, entry, tokens[first : first + group])
        backend.synchronize()
        build_seconds.append(time.perf_counter() - start)
        calls.append(bind(minibatch))
    return Prepared(calls, tokens[::group], build_seconds, prepare_seconds, first_call_seconds)


def _form_group(backend: Backend, problem: Problem, entry: Implementation, tokens: list[Array]) -> Any:
    """Return what one call takes: a minibatch, or the indices of all that the call serves, shape (G, m)."""
    if not entry.grouped:
        return form(backend, problem, entry.reads, tokens[0])
    return backend.from_host(np.stack(tokens))


def form(backend: Backend, problem: Problem, reads: str, J: Array) -> Any:
    """Return the minibatch of tokens J in the form that an implementation reads."""
    if reads == INDICES:
        return backend.from_host(J)
    if reads == FIRST_POSITIONS:
        first = first_positions(J, problem.variant.embedding)
        return backend.from_host(first.astype(problem.variant.index_dtype))
    if reads == HOST_INDICES:
        return J
    if reads == PINNED_INDICES:
        pinned = backend.pinned(J.shape, J.dtype)
        pinned[:] = J
        return pinned
    if reads == ONE_HOT:
        return one_hot(backend.xp, backend.from_host(J), problem.variant)
    if reads == CSR:
        shape = (problem.variant.minibatch, problem.variant.one_hot_columns)
        return backend.sparse(problem.sparse(J), shape)
    raise ValueError(f"no form {reads!r}")


def _run_preparation(
    backend: Backend, entry: Implementation, variant: Variant, W0: Any
) -> tuple[tuple[Any, ...], float | None]:
    if entry.prepare is None:
        return (), None
    start = time.perf_counter()
    prepared = entry.prepare(backend, variant, W0)
    backend.synchronize()
    return prepared, time.perf_counter() - start


def _check(
    backend: Backend,
    bind: Any,
    problem: Problem,
    host_W0: Array,
    entry: Implementation,
    prepared: tuple[Any, ...],
) -> float:
    group = entry.group(problem.variant)
    tokens = [problem.tokens(CHECK_SET + number) for number in range(group)]
    call = bind(_form_group(backend, problem, entry, tokens))
    backend.synchronize()
    start = time.perf_counter()
    result = call()
    backend.synchronize()
    seconds = time.perf_counter() - start
    if entry.check is not None:
        entry.check(backend, problem.variant, result, host_W0, tokens[0], prepared)
        return seconds
    for J, one in zip(tokens, result if entry.grouped else [result], strict=True):
        compare(backend.to_host(one), problem.reference(host_W0, J), problem.variant)
    return seconds


def compare(result: Array, expected: Array, variant: Variant) -> None:
    """Refuse a result that is not the reference's, bit for bit; NaN never passes.

    Raises
    ------
    WrongResultError
        Says what differs and where first.
    """
    name = f"{variant.implementation} on {variant.backend} at minibatch {variant.minibatch}"
    if result.shape != expected.shape or result.dtype != expected.dtype:
        raise WrongResultError(
            f"{name} gave {result.dtype} of shape {result.shape}, "
            f"expected {expected.dtype} of shape {expected.shape}"
        )
    if not np.array_equal(result, expected):
        place = tuple(int(axis) for axis in np.argwhere(~(result == expected))[0])
        wrong = int(np.count_nonzero(~(result == expected)))
        raise WrongResultError(
            f"{name} is wrong in {wrong} of {expected.size} elements, first at {place}: "
            f"{result[place]!r}, expected {expected[place]!r}"
        )
