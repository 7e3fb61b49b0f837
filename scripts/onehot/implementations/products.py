"""The product with the one-hot matrix, dense and sparse, and the decode that makes it a gather."""

from typing import Any

from onehot.implementations.registry import CSR, ONE_HOT, implementation
from onehot.variant import CORRECTED, Variant


def _fortran_copy(variant: Variant) -> int:
    """CuPy hands cuSPARSE a Fortran-ordered copy of W0 on every call."""
    return variant.table_bytes if variant.backend == "cupy" else 0


@implementation(geometry=CORRECTED, reads=ONE_HOT, backends=("numpy", "cupy"), threaded=True)
def dense_dot(xp: Any, W0: Any, X: Any) -> Any:
    """Multiply, as the formula says: 2 m V E operations of which m E are useful."""
    return X @ W0


@implementation(geometry=CORRECTED, reads=CSR, backends=("numpy", "cupy"), temporaries=_fortran_copy)
def sparse_dot(xp: Any, W0: Any, X: Any) -> Any:
    """Multiply by the matrix in compressed sparse rows, which was built outside the clock."""
    return X @ W0


@implementation(geometry=CORRECTED, reads=ONE_HOT, backends=("numpy", "cupy"))
def argmax_take(xp: Any, W0: Any, X: Any) -> Any:
    """Decode the whole one-hot matrix at once, then gather."""
    return W0[X.argmax(axis=1)]
