"""The training step around the lookup: its gradient goes back to the rows it came from, duplicates add up.

The lookup's backward pass adds row i of D to row J[i] of a table. A token that occurs twice in a minibatch
gets the sum of both rows; ``table[J] += D`` keeps one of them, in silence. Sums depend on the order of the
additions, so these results are compared within a bound, not bit for bit. Every scatter is
``scatter(xp, table, J, D, *prepared)``; it changes the table in place and returns it.
"""

from typing import Any

import numpy as np

from onehot.errors import WrongResultError
from onehot.implementations.kernels import BLOCK, INDEX_TYPES, WIDEST, row_bytes
from onehot.problem import Array
from onehot.variant import Variant

STEP_TOLERANCE = 1e-4
"""Largest error of a float32 step, as a fraction of its update's length; a lost row of 2048 is 2e-2."""


def buffered_add(xp: Any, table: Any, J: Any, D: Any) -> Any:
    """Write what looks right and is wrong: of several rows for one token, all but one are lost."""
    table[J] += D
    return table


def add_at(xp: Any, table: Any, J: Any, D: Any) -> Any:
    """Add unbuffered, as NumPy's manual says: correct, one element at a time."""
    xp.add.at(table, J, D)
    return table


def sorted_reduceat(xp: Any, table: Any, J: Any, D: Any) -> Any:
    """Bring equal tokens together, sum each group, then add rows that are all different."""
    order = xp.argsort(J, kind="stable")
    tokens = J[order]
    starts = xp.flatnonzero(xp.concatenate(([True], tokens[1:] != tokens[:-1])))
    table[tokens[starts]] += xp.add.reduceat(D[order], starts, axis=0)
    return table


def rounds(xp: Any, table: Any, J: Any, D: Any) -> Any:
    """Add each token's first row by indexing, then each second one, and so on: no round has a duplicate."""
    order = xp.argsort(J, kind="stable")
    tokens = J[order]
    starts = xp.flatnonzero(xp.concatenate(([True], tokens[1:] != tokens[:-1])))
    occurrence = xp.arange(len(J)) - xp.repeat(starts, xp.diff(starts, append=len(J)))
    for number in range(int(occurrence.max()) + 1):
        rows = order[occurrence == number]
        table[J[rows]] += D[rows]
    return table


def sparse_product(xp: Any, table: Any, J: Any, D: Any) -> Any:
    """Multiply by the transposed one-hot matrix, rows of absent tokens left out: the formula made cheap."""
    from scipy.sparse import csr_array

    tokens, position = xp.unique(J, return_inverse=True)
    order = xp.argsort(position, kind="stable")
    offsets = xp.concatenate(([0], xp.cumsum(xp.bincount(position))))
    transposed = csr_array((xp.ones(len(J), D.dtype), order, offsets), shape=(len(tokens), len(J)))
    table[tokens] += transposed @ D
    return table


def compiled_loop(backend: Any, variant: Variant, table: Any) -> tuple[Any, ...]:
    """Return the plain loop, compiled; each thread owns a span of columns, so no two add to one element."""
    numba = backend.numba

    def scatter(table: Any, J: Any, D: Any) -> None:
        columns = table.shape[1]
        threads = numba.get_num_threads()
        for thread in numba.prange(threads):
            low, high = thread * columns // threads, (thread + 1) * columns // threads
            for row in range(len(J)):
                token = J[row]
                for column in range(low, high):
                    table[token, column] += D[row, column]

    kernel = numba.njit(parallel=True)(scatter)  # Numba caches no function that asks for its threads
    kernel(table[:1].copy(), backend.xp.zeros(1, variant.index_dtype), backend.xp.zeros_like(table[:1]))
    return (kernel,)


def numba_columns(xp: Any, table: Any, J: Any, D: Any, scatter: Any) -> Any:
    """Add row by row in a compiled loop that gives every thread columns of its own."""
    scatter(table, J, D)
    return table


def cupy_scatter_add(xp: Any, table: Any, J: Any, D: Any) -> Any:
    """Add with one atomic addition an element, as CuPy does it."""
    import cupyx

    cupyx.scatter_add(table, J, D)
    return table


# float4's atomicAdd exists from compute capability 9.0 on: one transaction of 16 bytes instead of four of 4.
# Each of the four is added atomically, which is all that a sum of rows needs.
SCATTER_SOURCE = r"""
__device__ void add(float* to, float value) { atomicAdd(to, value); }
__device__ void add(double* to, double value) { atomicAdd(to, value); }
__device__ void add(float4* to, float4 value) {
#if __CUDA_ARCH__ >= 900
    atomicAdd(to, value);
#else
    float* one = (float*)to;
    atomicAdd(one, value.x); atomicAdd(one + 1, value.y);
    atomicAdd(one + 2, value.z); atomicAdd(one + 3, value.w);
#endif
}
extern "C" __global__ void scatter(
    PIECE* table, const INDEX* __restrict__ J, const PIECE* __restrict__ D, long long total)
{
    const long long mine = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (mine < total) {
        const long long row = mine / PIECES;
        add(table + (long long)J[row] * PIECES + (mine - row * PIECES), __ldcs(D + mine));
    }
}
"""


def scatter_options(variant: Variant, address: int) -> tuple[tuple[str, ...], int]:
    """Return the compiler options and the pieces of a row: float4 where rows allow it, else elements."""
    wide = variant.dtype == "float32" and row_bytes(variant) % WIDEST == 0 and address % WIDEST == 0
    pieces = variant.embedding // 4 if wide else variant.embedding
    element = {"float32": "float", "float64": "double"}[variant.dtype]
    return (
        f"-DPIECE={'float4' if wide else element}",
        f"-DPIECES={pieces}",
        f"-DINDEX={INDEX_TYPES[variant.index_dtype]}",
        f"-DTHREADS={BLOCK[0]}",
    ), pieces


def scatter_kernel(backend: Any, variant: Variant, table: Any) -> tuple[Any, ...]:
    """Return the compiled kernel, its grid, and the number of pieces of D, aligned as CuPy allocates."""
    options, pieces = scatter_options(variant, table.data.ptr)
    kernel = backend.xp.RawKernel(SCATTER_SOURCE, "scatter", options)
    total = variant.minibatch * pieces
    return kernel.kernel, (-(-total // BLOCK[0]),), np.int64(total)


def raw_scatter_add(xp: Any, table: Any, J: Any, D: Any, scatter: Any, grid: Any, total: Any) -> Any:
    """Add four elements with one atomic instruction where the GPU has it."""
    scatter(grid, BLOCK, (table, J, D, total))
    return table


def torch_index_add(xp: Any, table: Any, J: Any, D: Any) -> Any:
    """Add rows with torch's function for it."""
    return table.index_add_(0, J, D)


SCATTERS = {
    "add_at": (("numpy", "cupy"), add_at, None),
    "sorted_reduceat": (("numpy",), sorted_reduceat, None),
    "rounds": (("numpy",), rounds, None),
    "sparse_product": (("numpy",), sparse_product, None),
    "numba_columns": (("numba",), numba_columns, compiled_loop),
    "cupy_scatter_add": (("cupy",), cupy_scatter_add, None),
    "raw_scatter_add": (("cupy",), raw_scatter_add, scatter_kernel),
    "torch_index_add": (("torch_cpu", "torch_cuda"), torch_index_add, None),
}
"""Every right scatter: the backends that run it, the function, its preparation. ``buffered_add`` is wrong."""


def compare_scatter(result: Array, table: Array, J: Array, D: Array) -> None:
    """Refuse a sum that no order of the additions explains; NaN never passes.

    The reference adds in float64. However n additions are ordered, they err by at most n rounding errors of
    the sum of the magnitudes.

    Raises
    ------
    WrongResultError
        Says where the first element beyond the bound is.
    """
    exact, magnitude = table.astype(np.float64), np.abs(table).astype(np.float64)
    np.add.at(exact, J, D.astype(np.float64))
    np.add.at(magnitude, J, np.abs(D).astype(np.float64))
    additions = np.bincount(J, minlength=len(table))[:, None]
    bound = additions * np.finfo(table.dtype).eps * magnitude
    wrong = ~(np.abs(result - exact) <= bound)
    if result.shape != table.shape or result.dtype != table.dtype or wrong.any():
        place = tuple(int(axis) for axis in np.argwhere(wrong)[0]) if wrong.any() else ()
        count = np.count_nonzero(wrong)
        raise WrongResultError(f"{count} elements of {result.dtype} are no sum of rows, first at {place}")


def row_by_row(xp: Any, W: Any, J: Any) -> Any:
    """Look rows up in a loop: what one minibatch costs without the gather."""
    return xp.stack([W[j] for j in J.tolist()])


def train_step(
    xp: Any, W0: Any, W1: Any, J: Any, C: Any, rate: float, lookup: Any, scatter: Any
) -> tuple[Any, Any]:
    """Run one minibatch of word2vec (skip-gram, negative sampling) forward and backward, in place.

    Parameters
    ----------
    W0, W1 : tables of the centre words and of the context words, shape (V, E).
    J, C : tokens of the centres, shape (m,), and of the contexts, shape (m, 1 + k): the true one, k of noise.
    rate : the learning rate.
    lookup, scatter : ``lookup(W, J)`` and ``scatter(W, J, D)``: the two operations that this study compares.
    """
    contexts = C.reshape(-1)
    h = lookup(W0, J)
    u = lookup(W1, contexts).reshape(*C.shape, -1)
    error = 1 / (1 + xp.exp(-xp.einsum("me,mce->mc", h, u)))
    error[:, 0] -= 1
    error *= -rate
    scatter(W0, J, xp.einsum("mc,mce->me", error, u))
    scatter(W1, contexts, (error[:, :, None] * h[:, None, :]).reshape(len(contexts), -1))
    return W0, W1


def compare_step(results: tuple[Array, Array], W0: Array, W1: Array, J: Array, C: Array, rate: float) -> None:
    """Refuse a step whose updates are not those of the same step in float64 with unbuffered additions.

    Raises
    ------
    WrongResultError
        Says which table differs and by how much of its update.
    """
    exact = W0.astype(np.float64), W1.astype(np.float64)
    train_step(np, exact[0], exact[1], J, C, rate, lambda W, J: W[J], lambda W, J, D: add_at(np, W, J, D))
    for name, result, right, before in zip(("W0", "W1"), results, exact, (W0, W1), strict=True):
        error = np.linalg.norm(result - right) / np.linalg.norm(right - before)
        if not error <= STEP_TOLERANCE:
            raise WrongResultError(
                f"the update of {name} is wrong by {error:.2g} of its length; allowed {STEP_TOLERANCE:g}"
            )
