"""The kernels on a real GPU: every row width and dtype over a poisoned result, offsets past 2^31, graphs."""

import contextlib
import dataclasses

import numpy as np
import pytest
from onehot import implementations
from onehot.backends import registry
from onehot.errors import UnavailableError
from onehot.implementations import kernels, training
from onehot.variant import Variant

pytestmark = pytest.mark.gpu

KERNELS = ("take_wide", "elementwise_kernel", "raw_kernel", "raw_kernel_out")
GRAPHS = ("torch_index_select_graph", "torch_embedding_graph", "torch_index_graph")
POISON = 0xA5


def variant(name, m=1000, V=500, E=300, dtype="float32", index_dtype="int64", backend="cupy"):
    return Variant("corrected", backend, name, m, V, E, dtype, index_dtype, "uniform", 0.0, "C", 1)


def poison(cupy):
    """Fill what the pool will hand out next with a pattern that no result holds."""
    cupy.get_default_memory_pool().free_all_blocks()
    cupy.full(1 << 28, POISON, cupy.uint8)  # freed at once; the next result of at most this size lies in it


def bound(backend, one, W0):
    """The function of a variant with all but the indices in place."""
    entry = implementations.get(one.implementation, one.backend)
    prepared = entry.prepare(backend, one, W0) if entry.prepare else ()
    backend.synchronize()
    return lambda J: entry.function(backend.xp, W0, J, *prepared)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("E", [1, 3, 75, 300, 301, 1025])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_every_row_width_dtype_and_index_dtype_is_gathered_bit_for_bit(
    cupy_backend, name, E, dtype, index_dtype
):
    cupy, generator = cupy_backend.xp, np.random.default_rng(E)
    W = generator.random((500, E)).astype(dtype)
    W[3] = np.frombuffer(np.int64(0x7FF4_0000_7FA0_0001).tobytes(), dtype)[0]  # a NaN keeps its payload
    for m in (1, 2, 255, 20_000):
        J = generator.integers(0, 500, m).astype(index_dtype)
        one = variant(name, m, 500, E, dtype, index_dtype)
        poison(cupy)
        try:
            gather = bound(cupy_backend, one, cupy.asarray(W))
        except UnavailableError:
            assert name == "take_wide" and kernels.row_bytes(one) % 16
            return
        result = gather(cupy.asarray(J))
        assert cupy.asnumpy(result).tobytes() == W[J].tobytes()


@pytest.mark.parametrize(
    ("E", "V", "m"), [(300, 50_000, 1_048_576), (1025, 5000, 200_000), (1, 50_000, 20_000_000)]
)
def test_the_unrolled_kernel_is_right_over_many_waves(cupy_backend, E, V, m):
    cupy = cupy_backend.xp
    W, J = cupy.random.random((V, E), cupy.float32), cupy.random.randint(0, V, m)
    h = cupy.full((m, E), cupy.nan, cupy.float32)
    gather, grid, total = kernels._gather_kernel(cupy_backend, variant("raw_kernel", m, V, E), W)
    gather(grid, kernels.BLOCK, (W, J, h, total))
    assert int((h.view(cupy.int32) != W[J].view(cupy.int32)).sum()) == 0


@pytest.mark.parametrize("shift", [1, 2])
def test_a_table_off_the_16_byte_grid_is_gathered_in_narrower_pieces(cupy_backend, shift):
    cupy = cupy_backend.xp
    W = cupy.random.random(500 * 300 + 4, cupy.float32)[shift : shift + 500 * 300].reshape(500, 300)
    J = cupy.random.randint(0, 500, 1000)
    assert bool((bound(cupy_backend, variant("raw_kernel"), W)(J) == W[J]).all())
    with pytest.raises(UnavailableError, match="address"):
        bound(cupy_backend, variant("take_wide"), W)


@pytest.mark.parametrize("name", KERNELS)
def test_offsets_pass_2_to_the_31(cupy_backend, name):
    cupy, m, E = cupy_backend.xp, 7_200_000, 300
    if cupy_backend.free_bytes() < 20e9:
        pytest.skip("needs 20 GB of the GPU's memory")
    W, J = cupy.random.random((50_000, E), cupy.float32), cupy.random.randint(0, 50_000, m)
    h = bound(cupy_backend, variant(name, m, 50_000, E), W)(J)
    assert h.size > 1 << 31
    for start in range(0, m, 400_000):
        rows = slice(start, start + 400_000)
        assert bool((h[rows] == W[J[rows]]).all())
    del h
    cupy.get_default_memory_pool().free_all_blocks()


def test_a_graph_replays_with_the_indices_of_this_call(cupy_backend):
    cupy, G = cupy_backend.xp, kernels.GRAPH_MINIBATCHES
    for index_dtype in ("int32", "int64"):
        one = variant("cuda_graph", 200, index_dtype=index_dtype)
        W = cupy.random.random((500, 300), cupy.float32)
        replay = bound(cupy_backend, one, W)
        sets = [cupy.random.randint(0, 500, (G, 200)).astype(index_dtype) for _ in range(3)]
        for J in sets:
            result = replay(J)
            result_now = cupy.asnumpy(result)
            assert result_now.shape == (G, 200, 300)
            assert np.array_equal(result_now, cupy.asnumpy(W[J]))
            result.fill(cupy.nan)
        for J in sets:  # back to back: a replay must not see the next call's indices
            kept = replay(J).copy()
            replay(sets[0])
            assert bool((kept == W[J]).all())


def test_a_call_that_synchronises_cannot_be_captured(cupy_backend):
    cupy = cupy_backend.xp
    W, J = cupy.random.random((500, 300), cupy.float32), cupy.random.randint(0, 500, 40)
    cupy_backend.synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        bool(W.any())  # compiles outside the capture: nothing but the copy to the host can fail inside
        stream.synchronize()
        stream.begin_capture()
        with pytest.raises(Exception, match=r"[Cc]aptur"):
            bool(W.any())
        with contextlib.suppress(
            Exception
        ):  # CuPy refuses before CUDA does, which may leave the capture whole
            stream.end_capture()
    gather = bound(cupy_backend, variant("raw_kernel", 40), W)
    assert bool((gather(J) == W[J]).all())  # the failed capture leaves nothing behind


@pytest.fixture(scope="module")
def torch_backend():
    try:
        backend = registry.load("torch_cuda")
        backend.probe()
    except UnavailableError as error:
        pytest.skip(str(error))
    return backend


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_of_torch_replays_with_the_indices_of_this_call(torch_backend, name):
    torch = torch_backend.xp
    one = variant(name, 200, backend="torch_cuda")
    W = torch.rand((500, 300), device="cuda")
    replay = bound(torch_backend, one, W)
    for _ in range(3):
        J = torch.randint(0, 500, (kernels.GRAPH_MINIBATCHES, 200), device="cuda")
        results = replay(J)
        assert all(torch.equal(h, W[j]) for h, j in zip(results, J, strict=True))


def test_the_device_clock_of_torch_sees_a_known_sleep_and_not_the_hosts_gaps(torch_backend):
    import time

    cycles = 4_000_000
    timer = torch_backend.device_timer()

    def call():
        time.sleep(0.003)
        torch_backend.xp.cuda._sleep(cycles)

    seconds = min(timer.seconds(call, cold=cold) for cold in (True, False))
    assert cycles / 3e9 < seconds < 0.003 + cycles / 0.3e9


@pytest.mark.parametrize("name", ["torch_cuda", "jax_cuda"])
def test_a_peer_on_the_gpu_gives_the_reference_and_knows_its_device(name):
    from onehot.preparation import prepare
    from onehot.problem import Problem

    try:
        backend = registry.load(name)
        backend.probe()
    except UnavailableError as error:
        pytest.skip(str(error))
    assert backend.identity()["uuid"].startswith("GPU-") and backend.free_bytes() > 0
    for owner, entry in implementations.entries():
        if owner == name and entry.minibatches_per_call == 1:
            for index_dtype in ("int32", "int64"):
                one = variant(entry.name, 300, index_dtype=index_dtype, backend=name)
                assert prepare(backend, Problem(one, 7), 2).calls


@pytest.mark.parametrize("name", ["add_at", "cupy_scatter_add", "raw_scatter_add"])
@pytest.mark.parametrize("E", [1, 3, 300, 301])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_scatter_adds_duplicates_up(cupy_backend, name, E, dtype):
    cupy, generator = cupy_backend.xp, np.random.default_rng(E)
    _, function, prepare = training.SCATTERS[name]
    table, D = ((generator.random((rows, E)) - 0.5).astype(dtype) for rows in (50, 2000))
    for J in (generator.integers(0, 50, 2000), np.zeros(2000, np.int64)):
        on_device = cupy.asarray(table)
        one = dataclasses.replace(variant("scatter", 2000, 50, E, dtype), index_dtype=str(J.dtype))
        prepared = prepare(cupy_backend, one, on_device) if prepare else ()
        result = function(cupy, on_device, cupy.asarray(J), cupy.asarray(D), *prepared)
        training.compare_scatter(cupy.asnumpy(result), table, J, D)
