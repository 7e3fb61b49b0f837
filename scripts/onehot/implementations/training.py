"""The training step around the lookup: its gradient goes back to the rows it came from, duplicates add up.

The lookup's backward pass adds row i of D to row J[i] of a table. A token that occurs twice in a minibatch
gets the sum of both rows; ``table[J] += D`` keeps one of them, in silence. Sums depend on the order of the
additions, so these results are compared within a bound, not bit for bit. Every scatter is
``scatter(xp, table, J, D, *prepared)``; it changes the table in place and returns it.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from onehot.errors import WrongResultError
from onehot.implementations.kernels import BLOCK, INDEX_TYPES, WIDEST, row_bytes
from onehot.implementations.registry import INDICES, SCATTER, STEP, implementation
from onehot.problem import Array
from onehot.variant import CORRECTED, ITEM_BYTES, Variant

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


SCATTERS: dict[str, tuple[tuple[str, ...], Callable[..., Any], Callable[..., tuple[Any, ...]] | None]] = {
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


# What the study measures --------------------------------------------------------------------------

RATE = 0.025
"""Learning rate with which word2vec starts."""

GRADIENT = 1e-4
"""Size of the gradients that a scatter adds: thousands of calls on one table leave it finite."""

NOISE = 5
"""Tokens of noise a true context: 5 to 20 for small corpora (Mikolov et al., 2013)."""

CONTEXT_SETS = 4
"""Sets of contexts that steps take in turn, as the index sets are taken in turn."""

_SEED = 20130116


def _gradients(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Return D, shape (m, E): what flows back to the rows of the minibatch."""
    D = np.random.default_rng(_SEED).random((variant.minibatch, variant.embedding), np.dtype(variant.dtype))
    return (backend.from_host((D - np.asarray(0.5, D.dtype)) * np.asarray(GRADIENT, D.dtype)),)


def _gradients_and(prepare: Any, backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Return D, then what the scatter itself prepares."""
    return *_gradients(backend, variant, W0), *prepare(backend, variant, W0)


def _check_scatter(
    backend: Any, variant: Variant, result: Any, W0: Array, J: Array, prepared: tuple[Any, ...]
) -> None:
    compare_scatter(backend.to_host(result), W0, J, backend.to_host(prepared[0]))


def _gradient_bytes(variant: Variant) -> int:
    """D, and the copy of it that sorting and multiplying forms hold."""
    return 2 * variant.result_bytes


for _name, (_backends, _function, _prepare) in SCATTERS.items():
    implementation(
        name=f"scatter_{_name}",
        geometry=CORRECTED,
        reads=INDICES,
        backends=_backends,
        prepare=functools.partial(_gradients_and, _prepare) if _prepare else _gradients,
        temporaries=_gradient_bytes,
        threaded=not {"numba", "torch_cpu"}.isdisjoint(_backends),
        task=SCATTER,
        check=_check_scatter,
    )(_function)


def context_tables(variant: Variant) -> tuple[Array, list[Array]]:
    """Return W1, shape (V, E), and sets of contexts, each (m, 1 + NOISE), the same in every process."""
    generator = np.random.default_rng(_SEED)
    W1 = generator.random((variant.vocabulary, variant.embedding), np.dtype(variant.dtype))
    W1 -= np.asarray(0.5, W1.dtype)
    shape = (variant.minibatch, 1 + NOISE)
    sets = [generator.integers(0, variant.vocabulary, shape) for _ in range(CONTEXT_SETS)]
    return W1, [C.astype(variant.index_dtype) for C in sets]


def _contexts(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Return W1 and an endless iterator over the sets of contexts."""
    W1, sets = context_tables(variant)
    return backend.from_host(W1), itertools.cycle([backend.from_host(C) for C in sets])


def _contexts_and_kernels(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Return the same, and the scatter's kernel for the centres and for the contexts."""
    W1, contexts = _contexts(backend, variant, W0)
    many = dataclasses.replace(variant, minibatch=variant.minibatch * (1 + NOISE))
    return W1, contexts, scatter_kernel(backend, variant, W0), scatter_kernel(backend, many, W1)


def _check_step(
    backend: Any, variant: Variant, result: Any, W0: Array, J: Array, prepared: tuple[Any, ...]
) -> None:
    W1, sets = context_tables(variant)
    tables = tuple(backend.to_host(table) for table in result)
    compare_step(tables, W0, W1, J, sets[0], RATE)


def _step_bytes(variant: Variant) -> int:
    """W1, the contexts, and the rows and gradients of centres and contexts."""
    contexts = CONTEXT_SETS * variant.minibatch * (1 + NOISE) * ITEM_BYTES[variant.index_dtype]
    return variant.table_bytes + contexts + 4 * (2 + NOISE) * variant.result_bytes


step = functools.partial(
    implementation,
    geometry=CORRECTED,
    reads=INDICES,
    temporaries=_step_bytes,
    task=STEP,
    check=_check_step,
)


@step(backends=("numpy", "cupy"), prepare=_contexts, synchronises=True)
def step_loop(xp: Any, W0: Any, J: Any, W1: Any, contexts: Any) -> Any:
    """Run the step with rows looked up in a loop."""
    rows = functools.partial(row_by_row, xp)
    return train_step(xp, W0, W1, J, next(contexts), RATE, rows, functools.partial(add_at, xp))


@step(backends=("numpy", "cupy"), prepare=_contexts)
def step_gather(xp: Any, W0: Any, J: Any, W1: Any, contexts: Any) -> Any:
    """Run the step with ``W[J]`` forward and ``add.at`` backward."""
    add = functools.partial(add_at, xp)
    return train_step(xp, W0, W1, J, next(contexts), RATE, lambda W, J: W[J], add)


@step(name="step_fast", backends=("numpy",), prepare=_contexts)
def step_sparse(xp: Any, W0: Any, J: Any, W1: Any, contexts: Any) -> Any:
    """Run the step with ``take`` forward and the one-hot product backward, made cheap."""
    add = functools.partial(sparse_product, xp)
    return train_step(xp, W0, W1, J, next(contexts), RATE, lambda W, J: W.take(J, axis=0), add)


@step(name="step_fast", backends=("cupy",), prepare=_contexts_and_kernels)
def step_kernel(xp: Any, W0: Any, J: Any, W1: Any, contexts: Any, few: Any, many: Any) -> Any:
    """Run the step with ``take`` forward and atomic additions of 16 bytes backward."""

    def add(table: Any, J: Any, D: Any) -> Any:
        return raw_scatter_add(xp, table, J, D, *(few if table is W0 else many))

    return train_step(xp, W0, W1, J, next(contexts), RATE, lambda W, J: W.take(J, axis=0), add)


@step(name="step_fast", backends=("torch_cpu", "torch_cuda"), prepare=_contexts, threaded=True)
def step_torch(xp: Any, W0: Any, J: Any, W1: Any, contexts: Any) -> Any:
    """Run the step with ``index_select`` forward and ``index_add_`` backward."""
    add = functools.partial(torch_index_add, xp)
    rows = functools.partial(xp.index_select, dim=0)
    return train_step(xp, W0, W1, J, next(contexts), RATE, lambda W, J: rows(W, index=J), add)
