"""The question's intention as a loop over the minibatch.

With the two ways to keep a loop but not the growing array.
"""

from typing import Any

from onehot.implementations.registry import INDICES, ONE_HOT, implementation
from onehot.variant import CORRECTED, Variant


def _one_more_result(variant: Variant) -> int:
    """Count the rows so far beside the grown copy, or the list's rows beside the stacked copy."""
    return variant.result_bytes


@implementation(
    geometry=CORRECTED,
    reads=ONE_HOT,
    backends=("numpy", "cupy"),
    temporaries=_one_more_result,
    synchronises=True,
)
def loop_vstack(xp: Any, W0: Any, X: Any) -> Any:
    """Decode one row, ask whether h is still empty, stack the looked-up row under it.

    That makes m steps and m copies of h.
    """
    h = xp.zeros(1)
    for x in X:
        if not h.any():  # noqa: SIM108  (the question's own form)
            h = W0[xp.argmax(x)].reshape(1, -1)
        else:
            h = xp.vstack((h, W0[xp.argmax(x)]))
    return h


@implementation(
    geometry=CORRECTED,
    reads=INDICES,
    backends=("numpy", "cupy"),
    temporaries=_one_more_result,
    synchronises=True,
)
def loop_list_stack(xp: Any, W0: Any, J: Any) -> Any:
    """Collect the rows in a list and copy them once."""
    return xp.stack([W0[j] for j in J.tolist()])


@implementation(geometry=CORRECTED, reads=INDICES, backends=("numpy", "cupy"), synchronises=True)
def loop_preallocated(xp: Any, W0: Any, J: Any) -> Any:
    """Write each row to its place in an array that has its final size from the start."""
    h = xp.empty((len(J), W0.shape[1]), W0.dtype)
    for row, j in enumerate(J.tolist()):
        h[row] = W0[j]
    return h
