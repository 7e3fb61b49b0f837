"""The lookup on the GPU beyond ``W0[J]``: wider elements, kernels of one's own, a graph of many minibatches.

CuPy's ``take`` moves one 4-byte element a thread and divides integers to find it; the memory could carry
three times as much. Here is the same gather with fewer and wider accesses, or with fewer calls from the host.
"""

import itertools
from typing import Any

import numpy as np

from onehot.errors import UnavailableError
from onehot.implementations.registry import INDICES, get, implementation
from onehot.variant import CORRECTED, ITEM_BYTES, Variant

WIDEST = 16
"""Bytes that one thread loads or stores with one instruction at most."""

GRAPH_MINIBATCHES = 100
"""Minibatches of one graph at most: enough that its one launch from the host vanishes among them."""

GRAPH_LANES = 4
"""Chains of gathers in a graph: one waits for the memory while another starts."""

BLOCK = (256,)
MANY_WAVES = 16
"""From this many full loads of the device on, a thread moves several pieces; below, threads hide latency."""

PIECE_TYPES = {16: "uint4", 8: "uint2", 4: "unsigned"}
INDEX_TYPES = {"int32": "int", "int64": "long long"}

# PIECE, PIECES (of a row), INDEX, THREADS and UNROLL are constants of the compilation: division by a constant
# is a multiplication. Results are written once and not read here, so __stcs stores them (evict first): they
# leave the L2 cache to the table, whose rows are read again.
GATHER_SOURCE = r"""
extern "C" __global__ void gather(
    const PIECE* __restrict__ W, const INDEX* __restrict__ J, PIECE* __restrict__ h, long long total)
{
    // A block moves TILE neighbouring pieces of h. Its first row takes the one 64-bit division; after that
    // 32 bits do.
    const unsigned TILE = UNROLL * THREADS;
    const long long first = (long long)blockIdx.x * TILE;
    const long long row = first / PIECES;
    const unsigned offset = (unsigned)(first - row * PIECES);
    J += row;
    h += first;
    auto source = [&](unsigned mine) {
        const unsigned place = offset + mine;
        return W + (long long)__ldg(J + place / PIECES) * PIECES + place % PIECES;
    };
    if (total - first >= TILE) {
        const PIECE* from[UNROLL];
        PIECE held[UNROLL];  // every load is on its way before the first store waits for one
        #pragma unroll
        for (unsigned k = 0; k < UNROLL; ++k) from[k] = source(k * THREADS + threadIdx.x);
        #pragma unroll
        for (unsigned k = 0; k < UNROLL; ++k) held[k] = __ldg(from[k]);
        #pragma unroll
        for (unsigned k = 0; k < UNROLL; ++k) __stcs(h + k * THREADS + threadIdx.x, held[k]);
    } else {
        for (unsigned mine = threadIdx.x; mine < total - first; mine += THREADS)
            __stcs(h + mine, __ldg(source(mine)));
    }
}
"""


def row_bytes(variant: Variant) -> int:
    """Bytes of one row of W0."""
    return variant.embedding * ITEM_BYTES[variant.dtype]


def piece_bytes(variant: Variant, address: int) -> int:
    """Return the widest piece that divides every row of a table at an address: 16 bytes, 8 or 4."""
    return next(size for size in PIECE_TYPES if row_bytes(variant) % size == 0 and address % size == 0)


def gather_options(variant: Variant, piece: int, unroll: int) -> tuple[str, ...]:
    """Return the compiler options for this width of a row, these indices and this many pieces a thread."""
    return (
        f"-DPIECE={PIECE_TYPES[piece]}",
        f"-DPIECES={row_bytes(variant) // piece}",
        f"-DINDEX={INDEX_TYPES[variant.index_dtype]}",
        f"-DTHREADS={BLOCK[0]}",
        f"-DUNROLL={unroll}",
    )


def _wide_view(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Return W0 seen as 16-byte elements; a view, nothing is copied."""
    if row_bytes(variant) % WIDEST:
        row = f"rows of {row_bytes(variant)} bytes ({variant.embedding} {variant.dtype})"
        raise UnavailableError(f"{row} are no multiple of {WIDEST}")
    if W0.data.ptr % WIDEST:
        raise UnavailableError(f"W0 begins at address {W0.data.ptr:#x}, no multiple of {WIDEST}")
    return (W0.view(backend.xp.complex128),)


def _element_kernel(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Return a kernel of one expression, compiled at its first call, and the columns it is broadcast over."""
    inputs = "raw T W, I j, int64 column, int64 columns"
    expression = "h = W[(long long)j * columns + column]"
    kernel = backend.xp.ElementwiseKernel(inputs, "T h", expression, "onehot_gather")
    return kernel, backend.xp.arange(variant.embedding)


def _gather_kernel(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Return the compiled kernel, its grid, and the number of pieces of the result."""
    cupy = backend.xp
    piece = piece_bytes(variant, W0.data.ptr)
    total = variant.minibatch * (row_bytes(variant) // piece)
    resident = 2048 * cupy.cuda.Device().attributes["MultiProcessorCount"]
    unroll = 2 if total >= MANY_WAVES * resident else 1
    kernel = cupy.RawKernel(GATHER_SOURCE, "gather", gather_options(variant, piece, unroll))
    grid = (-(-total // (unroll * BLOCK[0])),)
    # The function inside the RawKernel: calling it spares the look-up of the device and of its kernel.
    return kernel.kernel, grid, np.int64(total)


def _gather_kernel_and_output(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Return the same, and the array that every call overwrites."""
    h = backend.xp.empty((variant.minibatch, variant.embedding), W0.dtype)
    return *_gather_kernel(backend, variant, W0), h


def _captured_gathers(backend: Any, variant: Variant, W0: Any) -> tuple[Any, ...]:
    """Return a graph of gathers that read their indices from one buffer and write to another, and both."""
    cupy = backend.xp
    gather, grid, total = _gather_kernel(backend, variant, W0)
    group = get("cuda_graph", "cupy").group(variant)
    buffer = cupy.zeros((group, variant.minibatch), variant.index_dtype)
    results = cupy.empty((group, variant.minibatch, variant.embedding), W0.dtype)
    gather(grid, BLOCK, (W0, buffer[0], results[0], total))  # loads the kernel, which a capture must not do
    backend.synchronize()
    stream, *lanes = (cupy.cuda.Stream(non_blocking=True) for _ in range(1 + GRAPH_LANES))
    stream.begin_capture()
    start = stream.record()
    for lane in lanes:
        lane.wait_event(start)
    for J, h, lane in zip(buffer, results, itertools.cycle(lanes)):
        with lane:
            gather(grid, BLOCK, (W0, J, h, total))
    for lane in lanes:
        stream.wait_event(lane.record())
    graph = stream.end_capture()
    graph.upload()
    return graph, buffer, results


def graph_buffers(variant: Variant) -> int:
    """Count the static index buffer, and the results beyond the two that are counted anyway."""
    group = get(variant.implementation, variant.backend).group(variant)
    indices = group * variant.minibatch * ITEM_BYTES[variant.index_dtype]
    return indices + max(group - 2, 0) * variant.result_bytes


@implementation(geometry=CORRECTED, reads=INDICES, backends=("cupy",), prepare=_wide_view)
def take_wide(xp: Any, W0: Any, J: Any, wide: Any) -> Any:
    """Take elements of 16 bytes instead of 4: a quarter of the threads, and no kernel of one's own."""
    return wide.take(J, axis=0).view(W0.dtype)


@implementation(geometry=CORRECTED, reads=INDICES, backends=("cupy",), prepare=_element_kernel)
def elementwise_kernel(xp: Any, W0: Any, J: Any, gather: Any, columns: Any) -> Any:
    """Write the lookup as one expression: what ``take`` does, in the open; still one element a thread."""
    return gather(W0, J[:, None], columns, W0.shape[1])


@implementation(geometry=CORRECTED, reads=INDICES, backends=("cupy",), prepare=_gather_kernel)
def raw_kernel(xp: Any, W0: Any, J: Any, gather: Any, grid: Any, total: Any) -> Any:
    """Move rows in pieces of 16 bytes, several in flight a thread; writes leave the L2 cache to the table."""
    h = xp.empty((len(J), W0.shape[1]), W0.dtype)
    gather(grid, BLOCK, (W0, J, h, total))
    return h


@implementation(geometry=CORRECTED, reads=INDICES, backends=("cupy",), prepare=_gather_kernel_and_output)
def raw_kernel_out(xp: Any, W0: Any, J: Any, gather: Any, grid: Any, total: Any, h: Any) -> Any:
    """Do the same into an array that exists already: what is left for the host is one launch."""
    gather(grid, BLOCK, (W0, J, h, total))
    return h


@implementation(
    geometry=CORRECTED,
    reads=INDICES,
    backends=("cupy",),
    prepare=_captured_gathers,
    temporaries=graph_buffers,
    minibatches_per_call=GRAPH_MINIBATCHES,
)
def cuda_graph(xp: Any, W0: Any, J: Any, graph: Any, buffer: Any, results: Any) -> Any:
    """Copy fresh indices of many minibatches to where the graph reads them, device to device, and replay it.

    One launch from the host serves them all, and no gather waits for all that were captured before it. J has
    shape (minibatches, m), the result (minibatches, m, E); the copy is inside the call and inside the clock.
    """
    buffer.data.copy_from_device_async(J.data, J.nbytes)
    graph.launch()
    return results
