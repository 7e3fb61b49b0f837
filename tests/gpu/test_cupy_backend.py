"""CuPy on a real GPU: correctness of every implementation, the held-stream clock, and who synchronises."""

import time

import numpy as np
import pytest
from onehot import clocks, implementations
from onehot.backends.cupy_backend import HOLD_CYCLES
from onehot.errors import UnavailableError, WrongResultError
from onehot.implementations.registry import STEP, Implementation
from onehot.preparation import compare, prepare
from onehot.problem import Problem
from onehot.variant import Variant

pytestmark = pytest.mark.gpu

ON_CUPY = [entry for backend, entry in implementations.entries() if backend == "cupy"]
# A graph is not captured into a graph, and a copy from pageable host memory is no part of one though nobody
# waits.
FROM_HOST = ("host_indices", "pinned_indices")
SINGLE = [entry for entry in ON_CUPY if entry.minibatches_per_call == 1 and entry.reads not in FROM_HOST]


def variant_of(entry: Implementation, **changes) -> Variant:
    small = {"minibatch": 40, "vocabulary": 500, "embedding": 12, "dtype": "float32", "index_dtype": "int64"}
    rest = {"distribution": "uniform", "zipf_exponent": 0.0, "layout": "C", "threads": 1}
    return Variant(entry.geometry, "cupy", entry.name, **{**small, **rest, **changes})


@pytest.mark.parametrize("entry", ON_CUPY, ids=lambda entry: entry.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_implementation_gives_the_reference(cupy_backend, entry, dtype):
    prepared = prepare(cupy_backend, Problem(variant_of(entry, dtype=dtype), 7), 2)
    assert len(prepared.calls) == 2


@pytest.mark.parametrize("entry", SINGLE, ids=lambda entry: entry.name)
def test_what_is_declared_to_synchronise_cannot_be_captured_and_the_rest_can(cupy_backend, entry):
    cupy = cupy_backend.xp
    call = prepare(cupy_backend, Problem(variant_of(entry), 7), 1).calls[0]
    call()
    stream = cupy.cuda.Stream(non_blocking=True)
    captured = True
    with stream:
        call()
        stream.synchronize()
        stream.begin_capture()
        try:
            result = call()  # noqa: F841  (kept until the capture ends: freeing inside it is a fault of its own)
        except Exception:
            captured = False
        try:
            stream.end_capture()
        except Exception:
            captured = False
    if entry.synchronises:
        assert not captured
    elif entry.task != STEP and entry.name not in ("dense_dot", "sparse_dot"):
        # Products' libraries allocate work space, and a step frees what it made: a capture refuses both.
        assert captured


def test_the_device_clock_sees_a_known_spin_and_not_the_hosts_gaps(cupy_backend):
    cupy = cupy_backend.xp
    spin = cupy.RawKernel(
        r"""extern "C" __global__ void spin(long long cycles) {
            long long start = clock64();
            while (clock64() - start < cycles);
        }""",
        "spin",
    )
    cycles = 2_000_000

    def call():
        time.sleep(0.002)
        spin((1,), (1,), (np.int64(cycles),))

    spin((1,), (1,), (np.int64(cycles),))
    timer = cupy_backend.device_timer()
    seconds = min(timer.seconds(call, cold=cold) for cold in (True, False))
    fastest_ghz = 3.0
    assert cycles / (fastest_ghz * 1e9) < seconds
    assert seconds < 0.002 + cycles / 0.3e9


def test_a_call_that_outlasts_the_hold_is_refused(cupy_backend):
    def call():
        time.sleep(10 * HOLD_CYCLES / 1e9)

    with pytest.raises(UnavailableError, match="outlasted"):
        cupy_backend.device_timer().seconds(call, cold=False)


def test_a_wrong_result_is_refused(cupy_backend):
    entry = implementations.get("fancy_index", "cupy")
    variant = variant_of(entry)
    problem = Problem(variant, 7)
    J = problem.tokens(0)
    right = problem.reference(problem.weights(), J)
    wrong = right.copy()
    wrong[3, 5] = np.nan
    with pytest.raises(WrongResultError, match=r"first at \(3, 5\)"):
        compare(wrong, right, variant)


def test_enqueue_is_shorter_than_latency_for_a_long_kernel(cupy_backend):
    """Not a timing of ours.

    a copy of 1 GB takes the device longer than queueing it takes the host, on any GPU.
    """
    cupy = cupy_backend.xp
    big = cupy.zeros(1 << 28, cupy.float32)
    out = cupy.empty_like(big)
    call = lambda: cupy.copyto(out, big)  # noqa: E731
    call()
    assert clocks.enqueue([call], cupy_backend.synchronize) < clocks.latency([call], cupy_backend.synchronize)


def test_identity_is_what_the_driver_says(cupy_backend):
    known = cupy_backend.identity()
    assert known["uuid"].startswith("GPU-") and known["l2_bytes"] > 0
