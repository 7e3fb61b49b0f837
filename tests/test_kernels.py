"""The GPU kernel's arithmetic on the CPU: the same source built by a C++ compiler, run block after block."""

import ctypes
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
from onehot import implementations
from onehot.errors import UnavailableError
from onehot.implementations import kernels
from onehot.variant import Variant

COMPILER = shutil.which("c++") or shutil.which("g++")
ON_THE_HOST = r"""
struct uint4 { unsigned x, y, z, w; };
struct uint2 { unsigned x, y; };
struct Place { unsigned x; };
static Place blockIdx, threadIdx;
#define __global__
template <class T> T __ldg(const T* from) { return *from; }
template <class T> void __stcs(T* to, T value) { *to = value; }
SOURCE
extern "C" void run(const PIECE* W, const INDEX* J, PIECE* h, long long total, unsigned begin, unsigned end) {
    for (blockIdx.x = begin; blockIdx.x < end; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < THREADS; ++threadIdx.x) gather(W, J, h, total);
}
"""
compiled = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")


def variant(name="raw_kernel", m=1000, V=50, E=300, dtype="float32", index_dtype="int64"):
    return Variant("corrected", "cupy", name, m, V, E, dtype, index_dtype, "uniform", 0.0, "C", 1)


def on_the_host(folder, one, unroll):
    """The kernel of a variant as a host function, and the pieces of a row."""
    piece = kernels.piece_bytes(one, 512)
    source, library = folder / "gather.cpp", folder / "gather.so"
    source.write_text(ON_THE_HOST.replace("SOURCE", kernels.GATHER_SOURCE))
    options = kernels.gather_options(one, piece, unroll)
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "-w", *options, source, "-o", library], check=True)
    return ctypes.CDLL(str(library)).run, kernels.row_bytes(one) // piece


def gathered(function, pieces, unroll, W, J, h, blocks=slice(None)):
    total = len(J) * pieces
    begin, end, _ = blocks.indices(-(-total // (unroll * kernels.BLOCK[0])))
    pointers = (ctypes.c_void_p(array.ctypes.data) for array in (W, J, h))
    function(*pointers, ctypes.c_longlong(total), ctypes.c_uint(begin), ctypes.c_uint(end))
    return h


def untouched(shape, dtype):
    """An array of zeros larger than this machine may have memory: pages that nobody writes cost none."""
    try:
        return np.zeros(shape, dtype)
    except MemoryError:
        pytest.skip("this machine promises no memory that it does not have")


def poisoned(shape, dtype):
    return np.full(shape, np.nan, dtype)


@compiled
@pytest.mark.parametrize("E", [1, 3, 75, 300, 301, 1025])
@pytest.mark.parametrize(("dtype", "index_dtype", "unroll"), [
    ("float32", "int64", 2), ("float32", "int32", 1), ("float64", "int32", 2), ("float64", "int64", 1),
])  # fmt: skip
def test_every_row_width_dtype_and_index_dtype_is_gathered_bit_for_bit(
    tmp_path, E, dtype, index_dtype, unroll
):
    one = variant(E=E, dtype=dtype, index_dtype=index_dtype)
    function, pieces = on_the_host(tmp_path, one, unroll)
    generator = np.random.default_rng(E)
    W = generator.random((one.vocabulary, E)).astype(dtype)
    W[3] = np.frombuffer(np.int64(0x7FF4_0000_7FA0_0001).tobytes(), dtype)[0]  # a NaN keeps its payload
    for m in (1, 2, 255, 1000):
        J = generator.integers(0, one.vocabulary, m).astype(index_dtype)
        h = gathered(function, pieces, unroll, W, J, poisoned((m, E), dtype))
        assert h.tobytes() == W[J].tobytes()


@compiled
def test_the_last_row_is_right_where_the_result_has_more_than_2_to_the_31_elements(tmp_path):
    m, E = 7_200_000, 300
    function, pieces = on_the_host(tmp_path, variant(m=m, E=E), 4)
    W = np.random.default_rng(0).random((50, E), dtype=np.float32)
    J = np.random.default_rng(1).integers(0, 50, m)
    h = gathered(function, pieces, 4, W, J, untouched((m, E), np.float32), slice(-3, None))
    assert h.size > 1 << 31
    assert np.array_equal(h[-10:], W[J[-10:]])


@compiled
def test_the_last_element_is_right_where_there_are_more_than_2_to_the_31_pieces(tmp_path):
    m = (1 << 31) + 1001
    function, pieces = on_the_host(tmp_path, variant(m=m, E=1, index_dtype="int32"), 4)
    W = np.arange(50, dtype=np.float32).reshape(50, 1)
    J = untouched(m, np.int32)
    J[-500:] = np.arange(500) % 50
    h = gathered(function, pieces, 4, W, J, untouched((m, 1), np.float32), slice(-2, None))
    assert np.array_equal(h[-500:], W[J[-500:]])


@pytest.mark.parametrize(("E", "dtype", "address", "piece"), [
    (300, "float32", 512, 16), (300, "float32", 520, 8), (300, "float32", 516, 4), (75, "float32", 512, 4),
    (2, "float32", 512, 8), (301, "float64", 512, 8), (1, "float64", 512, 8), (1025, "float32", 512, 4),
])  # fmt: skip
def test_the_widest_piece_divides_the_row_and_the_address(E, dtype, address, piece):
    assert kernels.piece_bytes(variant(E=E, dtype=dtype), address) == piece


def test_take_wide_says_why_it_cannot_run():
    backend = SimpleNamespace(xp=np)
    prepare = implementations.get("take_wide", "cupy").prepare
    W0 = SimpleNamespace(data=SimpleNamespace(ptr=512), view=lambda dtype: dtype)
    with pytest.raises(UnavailableError, match=r"rows of 1204 bytes \(301 float32\) are no multiple of 16"):
        prepare(backend, variant(E=301), W0)
    W0.data.ptr = 516
    with pytest.raises(UnavailableError, match="address 0x204"):
        prepare(backend, variant(), W0)


def test_take_wide_gathers_bit_for_bit():
    W0 = np.random.default_rng(0).random((50, 300), dtype=np.float32)
    J = np.array([3, 3, 49, 0])
    h = implementations.get("take_wide", "cupy").function(np, W0, J, W0.view(np.complex128))
    assert h.dtype == W0.dtype
    assert np.array_equal(h, W0[J])


def test_the_graph_counts_its_minibatches_and_its_memory():
    entry = implementations.get("cuda_graph", "cupy")
    assert entry.minibatches_per_call == kernels.GRAPH_MINIBATCHES
    one = variant("cuda_graph", m=2048)
    each = one.result_bytes + 2048 * 8
    assert entry.temporaries(one) + 2 * one.result_bytes == kernels.GRAPH_MINIBATCHES * each


def test_a_group_is_as_large_as_its_results_may_be_together():
    entry = implementations.get("cuda_graph", "cupy")
    groups = {m: entry.group(variant("cuda_graph", m=m)) for m in (1, 2048, 131_072, 1_048_576, 10**8)}
    assert groups == {1: 100, 2048: 100, 131_072: 13, 1_048_576: 1, 10**8: 1}
    assert implementations.get("take", "cupy").group(variant("take", m=1)) == 1
