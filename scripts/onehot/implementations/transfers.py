"""The lookup where the indices live on the host, as a data loader leaves them, and where h goes back to it.

On NumPy nothing travels, so ``fancy_index`` there is what these are compared with. ``cupy.asarray`` copies
ordinary (pageable) memory into page-locked memory of CuPy's own first; page-locked memory it sends from where
it is. Either way the copy to the device is queued and the call waits for nothing, until h goes back.
"""

from typing import Any

from onehot.implementations.registry import HOST_INDICES, PINNED_INDICES, implementation
from onehot.variant import CORRECTED, Variant


def _host_result(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Touch ordinary memory of the result's size: what is timed is the copy, not its page faults."""
    import numpy as np  # not at the top: planning imports every implementation and no array library

    h = np.empty((variant.minibatch, variant.embedding), variant.dtype)
    h.fill(0)
    return (h,)


def _pinned_result(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Lock memory of the result's size once: locking takes milliseconds."""
    return (backend.pinned((variant.minibatch, variant.embedding), variant.dtype),)


@implementation(geometry=CORRECTED, reads=HOST_INDICES, backends=("cupy",))
def pageable_in(xp: Any, W0: Any, J: Any) -> Any:
    """Send the indices from ordinary memory, and look up."""
    return W0[xp.asarray(J)]


@implementation(geometry=CORRECTED, reads=PINNED_INDICES, backends=("cupy",))
def pinned_in(xp: Any, W0: Any, J: Any) -> Any:
    """Send the indices from page-locked memory, and look up."""
    return W0[xp.asarray(J)]


@implementation(
    geometry=CORRECTED, reads=HOST_INDICES, backends=("cupy",), prepare=_host_result, synchronises=True
)
def pageable_in_out(xp: Any, W0: Any, J: Any, h: Any) -> Any:
    """Send the indices from ordinary memory, look up, and bring h back to ordinary memory."""
    return W0[xp.asarray(J)].get(out=h)


@implementation(
    geometry=CORRECTED, reads=PINNED_INDICES, backends=("cupy",), prepare=_pinned_result, synchronises=True
)
def pinned_in_out(xp: Any, W0: Any, J: Any, h: Any) -> Any:
    """Send the indices from page-locked memory, look up, and bring h back to page-locked memory."""
    return W0[xp.asarray(J)].get(out=h)
