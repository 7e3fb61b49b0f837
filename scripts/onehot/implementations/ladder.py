"""The rungs between the loop and the lookup: each removes one cause and computes the same result.

Read them downwards. What a rung is faster than the one above it is what the cause that it removes costs on
that backend: the same rung costs different things on NumPy and on CuPy. ``LADDERS`` names the order.

In the published geometry the vector that a gather reads is not the tokens J of the minibatch, of which there
are m, but the first position of each of the E tokens in the batch: what ``X.argmax(axis=0)`` gives. It is
made outside the clock, as J is in the corrected geometry: who keeps indices never builds or decodes X.
"""

from typing import Any

from onehot.implementations.registry import FIRST_POSITIONS, ONE_HOT, implementation
from onehot.variant import CORRECTED, PUBLISHED, Variant

LADDERS: dict[str, tuple[tuple[str, str], ...]] = {
    PUBLISHED: (
        ("published_loop", "as published"),
        ("rung_no_any", "asking h.any() at every step"),
        ("rung_argmax_once", "an argmax a step"),
        ("rung_host_indices", "an index on the device"),
        ("rung_list_stack", "growing h by vstack"),
        ("rung_preallocated", "a list and its one vstack"),
        ("published_gather", "a Python loop over rows"),
        ("rung_gather_indices", "the one-hot matrix and its decode"),
        ("rung_take", "the general machinery of indexing"),
        ("rung_take_out", "a fresh result"),
    ),
    CORRECTED: (
        ("loop_vstack", "as published, on the intended rows"),
        ("corrected_no_any", "asking h.any() at every step"),
        ("corrected_argmax_once", "an argmax a step"),
        ("corrected_host_indices", "an index on the device"),
        ("corrected_list_stack", "growing h by vstack"),
        ("corrected_preallocated", "a list and its one vstack"),
        ("argmax_take", "a Python loop over rows"),
        ("fancy_index", "the one-hot matrix and its decode"),
        ("take", "the general machinery of indexing"),
        ("take_out", "a fresh result"),
        ("raw_kernel_out", "an element of 4 bytes a thread"),
        ("cuda_graph", "a launch a minibatch"),
    ),
}
"""Of each geometry, from the loop down: the implementation, and the cause that it removes."""


def _one_more_result(variant: Variant) -> int:
    """Return the bytes of the rows so far beside the grown copy, or of the list beside the stacked copy."""
    return variant.result_bytes


def _square_output(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Allocate the array that every call overwrites, once, outside the clock."""
    return (backend.xp.empty((variant.embedding, variant.embedding), W0.dtype),)


# The published geometry: E steps over the rows of X.T ----------------------------------------------


@implementation(geometry=PUBLISHED, reads=ONE_HOT, backends=("numpy", "cupy"), temporaries=_one_more_result)
def rung_no_any(xp: Any, W0: Any, X: Any) -> Any:
    """Know which step is the first instead of asking ``h``: nothing is copied to the host, nothing waits."""
    h = None
    for x in X.T:
        row = W0[xp.argmax(x)]
        h = row if h is None else xp.vstack((h, row))
    return h


@implementation(geometry=PUBLISHED, reads=ONE_HOT, backends=("numpy", "cupy"), temporaries=_one_more_result)
def rung_argmax_once(xp: Any, W0: Any, X: Any) -> Any:
    """Decode all columns in one call; an index is still an array, so CuPy looks its row up with a kernel."""
    h = None
    for position in X.argmax(axis=0):
        row = W0[position]
        h = row if h is None else xp.vstack((h, row))
    return h


@implementation(
    geometry=PUBLISHED,
    reads=ONE_HOT,
    backends=("numpy", "cupy"),
    temporaries=_one_more_result,
    synchronises=True,
)
def rung_host_indices(xp: Any, W0: Any, X: Any) -> Any:
    """Copy the indices to the host once: by a Python int a row of W0 is a view, and no kernel runs."""
    h = None
    for position in X.argmax(axis=0).tolist():
        row = W0[position]
        h = row if h is None else xp.vstack((h, row))
    return h


@implementation(
    geometry=PUBLISHED,
    reads=ONE_HOT,
    backends=("numpy", "cupy"),
    temporaries=_one_more_result,
    synchronises=True,
)
def rung_list_stack(xp: Any, W0: Any, X: Any) -> Any:
    """Collect the rows and stack them once: every row is copied once instead of again at each step."""
    return xp.vstack([W0[position] for position in X.argmax(axis=0).tolist()])


@implementation(geometry=PUBLISHED, reads=ONE_HOT, backends=("numpy", "cupy"), synchronises=True)
def rung_preallocated(xp: Any, W0: Any, X: Any) -> Any:
    """Write each row to its place in an array that has its final size from the start."""
    h = xp.empty((X.shape[1], W0.shape[1]), W0.dtype)
    for step, position in enumerate(X.argmax(axis=0).tolist()):
        h[step] = W0[position]
    return h


@implementation(geometry=PUBLISHED, reads=FIRST_POSITIONS, backends=("numpy", "cupy"))
def rung_gather_indices(xp: Any, W0: Any, first: Any) -> Any:
    """Gather by the first positions themselves: no one-hot matrix is read."""
    return W0[first]


@implementation(geometry=PUBLISHED, reads=FIRST_POSITIONS, backends=("numpy", "cupy"))
def rung_take(xp: Any, W0: Any, first: Any) -> Any:
    """Say the same with ``take``."""
    return xp.take(W0, first, axis=0)


# NumPy buffers the output unless its mode is clip; the positions were range-checked on the host.
@implementation(
    name="rung_take_out",
    geometry=PUBLISHED,
    reads=FIRST_POSITIONS,
    backends=("numpy",),
    prepare=_square_output,
)
def rung_take_out_clip(xp: Any, W0: Any, first: Any, h: Any) -> Any:
    """Gather into an array that exists already."""
    return xp.take(W0, first, axis=0, out=h, mode="clip")


# CuPy's take has no mode: it wraps.
@implementation(geometry=PUBLISHED, reads=FIRST_POSITIONS, backends=("cupy",), prepare=_square_output)
def rung_take_out(xp: Any, W0: Any, first: Any, h: Any) -> Any:
    """Gather into an array that exists already."""
    return xp.take(W0, first, axis=0, out=h)


# The corrected geometry: m steps over the rows of X ------------------------------------------------


@implementation(geometry=CORRECTED, reads=ONE_HOT, backends=("numpy", "cupy"), temporaries=_one_more_result)
def corrected_no_any(xp: Any, W0: Any, X: Any) -> Any:
    """Know which step is the first instead of asking ``h``."""
    h = None
    for x in X:
        row = W0[xp.argmax(x)].reshape(1, -1)
        h = row if h is None else xp.vstack((h, row))
    return h


@implementation(geometry=CORRECTED, reads=ONE_HOT, backends=("numpy", "cupy"), temporaries=_one_more_result)
def corrected_argmax_once(xp: Any, W0: Any, X: Any) -> Any:
    """Decode all rows in one call."""
    h = None
    for token in X.argmax(axis=1):
        row = W0[token].reshape(1, -1)
        h = row if h is None else xp.vstack((h, row))
    return h


@implementation(
    geometry=CORRECTED,
    reads=ONE_HOT,
    backends=("numpy", "cupy"),
    temporaries=_one_more_result,
    synchronises=True,
)
def corrected_host_indices(xp: Any, W0: Any, X: Any) -> Any:
    """Copy the tokens to the host once."""
    h = None
    for token in X.argmax(axis=1).tolist():
        row = W0[token].reshape(1, -1)
        h = row if h is None else xp.vstack((h, row))
    return h


@implementation(
    geometry=CORRECTED,
    reads=ONE_HOT,
    backends=("numpy", "cupy"),
    temporaries=_one_more_result,
    synchronises=True,
)
def corrected_list_stack(xp: Any, W0: Any, X: Any) -> Any:
    """Collect the rows and stack them once; ``loop_list_stack`` after a decode."""
    return xp.vstack([W0[token] for token in X.argmax(axis=1).tolist()])


@implementation(geometry=CORRECTED, reads=ONE_HOT, backends=("numpy", "cupy"), synchronises=True)
def corrected_preallocated(xp: Any, W0: Any, X: Any) -> Any:
    """Write each row to its place; ``loop_preallocated`` after a decode."""
    h = xp.empty((X.shape[0], W0.shape[1]), W0.dtype)
    for step, token in enumerate(X.argmax(axis=1).tolist()):
        h[step] = W0[token]
    return h
