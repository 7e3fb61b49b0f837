"""Measuring.

Correctness before time, what is skipped and why, what a record holds. No test asserts a time.
"""

import dataclasses
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onehot import clocks, implementations, measurement, sampling
from onehot.backends import registry as backends
from onehot.errors import StudyError, WrongResultError
from onehot.implementations import registry
from onehot.job import Settings
from onehot.preparation import compare, index_sets, prepare
from onehot.problem import Problem
from onehot.records import MeasurementRecord
from onehot.variant import Variant

QUICK = Settings(
    seed=3,
    index_sets=3,
    input_bytes=1 << 30,
    budget_seconds=0.02,
    target=0.05,
    min_samples=6,
    max_samples=20,
    sample_seconds=0.0005,
    warmup_seconds=0.001,
    call_limit_seconds=5.0,
    timeout_seconds=60.0,
)
ON_NUMPY = [entry for backend, entry in implementations.entries() if backend == "numpy"]
STUDY = {"root": str(Path(__file__).parents[1]), "code_hash": "0"}


def variant(name: str, **changes) -> Variant:
    entry = implementations.get(name, "numpy")
    values = {
        "minibatch": 40,
        "vocabulary": 500,
        "embedding": 12,
        "dtype": "float32",
        "index_dtype": "int64",
        "distribution": "uniform",
        "zipf_exponent": 0.0,
        "layout": "C",
        "threads": 1,
    }
    return Variant(entry.geometry, "numpy", name, **{**values, **changes})


@pytest.fixture
def numpy_backend():
    return backends.load("numpy")


@pytest.fixture
def planted():
    """Register an implementation for one test."""
    before = dict(registry._REGISTRY)
    yield implementations.implementation(geometry="corrected", reads=registry.INDICES, backends=("numpy",))
    registry._REGISTRY.clear()
    registry._REGISTRY.update(before)


@pytest.mark.parametrize("entry", ON_NUMPY, ids=lambda entry: entry.name)
@pytest.mark.parametrize("changes", [{}, {"dtype": "float64"}, {"minibatch": 1}, {"embedding": 3}], ids=str)
def test_every_numpy_implementation_gives_the_reference_bit_for_bit(numpy_backend, entry, changes):
    prepared = prepare(numpy_backend, Problem(variant(entry.name, **changes), 11), 2)
    assert len(prepared.calls) == 2 and prepared.first_call_seconds > 0


def test_a_wrong_implementation_is_never_timed(planted, numpy_backend):
    @planted
    def off_by_one(xp, W0, J):
        return W0[J - 1]

    with pytest.raises(WrongResultError, match="off_by_one on numpy at minibatch 40 is wrong in"):
        measurement.measure(variant("off_by_one"), 0, QUICK, STUDY, time.perf_counter())


def test_nan_never_passes_the_comparison():
    one = np.full((2, 2), np.nan, np.float32)
    with pytest.raises(WrongResultError, match="wrong in 4 of 4"):
        compare(one, one.copy(), variant("take"))


def test_a_result_of_another_dtype_or_shape_is_wrong():
    right = np.zeros((2, 2), np.float32)
    for wrong in (right.astype(np.float64), right[:1]):
        with pytest.raises(WrongResultError, match="expected float32 of shape"):
            compare(wrong, right, variant("take"))


def test_a_record_holds_samples_of_each_clock_and_the_reason_for_each_that_is_absent():
    record = measurement.measure(variant("fancy_index"), 1, QUICK, STUDY, time.perf_counter())
    read = MeasurementRecord.model_validate(record)
    assert read.status == "ok" and read.invocation == 1
    assert set(read.clocks) == {clocks.LATENCY, clocks.THROUGHPUT}
    assert set(read.absent) == {clocks.ENQUEUE, clocks.DEVICE_COLD, clocks.DEVICE_HOT}
    assert read.index_sets == len(read.distinct_rows) == 3
    assert read.provenance.settings["threads_in_force"] == 1


def test_blas_threads_are_set_in_the_process_and_recorded(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    record = measurement.measure(variant("dense_dot", threads=2), 0, QUICK, STUDY, time.perf_counter())
    pools = record["provenance"]["software"]["thread_pools"]
    assert record["provenance"]["settings"]["threads_in_force"] == 2
    assert {pool["num_threads"] for pool in pools if pool["user_api"] == "blas"} == {2}


def test_a_slow_variant_is_given_up_on_its_probes_with_prediction_and_limit(planted):
    @planted
    def sleeper(xp, W0, J):
        time.sleep(len(J) * 1e-6)
        return W0[J]

    settings = dataclasses.replace(QUICK, call_limit_seconds=0.05)
    slow = variant("sleeper", minibatch=1_000_000)
    record = measurement.measure(slow, 0, settings, STUDY, time.perf_counter())
    read = MeasurementRecord.model_validate(record)
    assert (read.status, read.skip.cause, read.skip.limit) == ("skipped", "time", 0.05)
    assert read.skip.predicted > 0.05 and len(read.skip.probes) >= 2
    assert "predicted to take" in read.reason and not read.clocks


def test_a_jump_between_two_cheap_probes_gives_nothing_up(monkeypatch):
    seen = []
    leaving_a_cache = {64: 9e-6, 256: 33e-6, 1024: 530e-6, 4096: 2e-3, 16_384: 8e-3}

    def planted_latency(calls, synchronize):
        (call,) = calls
        seen.append(len(call.args[2]))
        return leaving_a_cache[seen[-1]]

    monkeypatch.setattr(measurement.clocks, "latency", planted_latency)
    settings = dataclasses.replace(QUICK, call_limit_seconds=1.0)
    one = variant("take", minibatch=65_536, vocabulary=500)
    skip, expected = measurement._time_skip(backends.load("numpy"), one, settings)
    assert skip is None
    assert max(seen) == 4096 and expected < 1


def test_a_variant_that_an_earlier_invocation_timed_is_not_probed_again(planted, monkeypatch):
    seen = []

    @planted
    def watched(xp, W0, J):
        seen.append(len(J))
        return W0[J]

    watched_variant = variant("watched", minibatch=5000)
    measurement.measure(watched_variant, 0, QUICK, STUDY, time.perf_counter())
    assert min(seen) < 5000
    seen.clear()
    measurement.measure(watched_variant, 1, QUICK, STUDY, time.perf_counter(), known_seconds=1e-4)
    assert set(seen) == {5000}


def test_one_call_that_outlasts_the_budget_is_made_once_for_both_clocks_of_a_library_that_queues_nothing(
    planted,
):
    calls = []

    @planted
    def slow(xp, W0, J):
        calls.append(1)
        time.sleep(0.05)
        return W0[J]

    settings = dataclasses.replace(QUICK, budget_seconds=0.02)
    slow_variant = variant("slow")
    record = measurement.measure(slow_variant, 1, settings, STUDY, time.perf_counter(), known_seconds=0.05)
    read = MeasurementRecord.model_validate(record)
    assert read.clocks["latency"] == read.clocks["throughput"] and read.clocks["latency"].stopped == "single"
    assert len(calls) == 2  # the check, and the sample


def test_a_variant_larger_than_memory_is_skipped_with_both_numbers(monkeypatch):
    """dense_dot at m = 65 536, V = 50 000 in float64 wants 26.2 GB for one matrix alone."""
    monkeypatch.setattr("onehot.backends.numpy_backend.NumpyBackend.free_bytes", lambda self: 16 * 10**9)
    large = variant("dense_dot", minibatch=65_536, vocabulary=50_000, embedding=300, dtype="float64")
    record = measurement.measure(large, 0, QUICK, STUDY, time.perf_counter())
    read = MeasurementRecord.model_validate(record)
    assert (read.status, read.skip.cause, read.skip.limit) == ("skipped", "memory", 16e9)
    assert read.skip.predicted > 26.2e9


def test_the_one_hot_matrix_of_the_question_is_781_mib_in_float64():
    entry = implementations.get("dense_dot", "numpy")
    question = variant("dense_dot", minibatch=2048, vocabulary=50_000, embedding=300, dtype="float64")
    assert entry.input_bytes(question) / 2**20 == pytest.approx(781.25)


def test_index_sets_are_reduced_where_their_inputs_would_not_fit():
    entry = implementations.get("dense_dot", "numpy")
    large = variant("dense_dot", minibatch=2048, vocabulary=50_000)
    assert [index_sets(entry, large, 4, 1 << shift) for shift in (40, 30, 20)] == [4, 2, 1]


@given(st.floats(1e-6, 1e-1), st.floats(0.0, 2.0), st.integers(1000, 10**7))
def test_extrapolation_recovers_a_planted_power_law(seconds, growth, minibatch):
    probes = [(m, seconds * m**growth) for m in (64, 512)]
    assert measurement.extrapolate(probes, minibatch) == pytest.approx(seconds * minibatch**growth, rel=1e-6)


def test_one_probe_extrapolates_nothing():
    assert measurement.extrapolate([(64, 1.0)], 128) is None


def test_an_unknown_implementation_or_backend_is_named():
    with pytest.raises(StudyError, match="did you mean 'take'"):
        implementations.get("tke", "numpy")
    with pytest.raises(StudyError, match="'torch_cud' is unknown; did you mean"):
        backends.load("torch_cud")


def test_rotation_hands_out_every_call_in_turn():
    rotation = clocks.Rotation([lambda n=n: n for n in range(3)])
    assert [call() for call in rotation.take(4) + rotation.take(4)] == [0, 1, 2, 0, 1, 2, 0, 1]


def test_work_queued_before_the_clock_starts_is_not_charged_to_what_is_timed():
    log: list[str] = []
    clocks.latency([lambda: log.append("call")], lambda: log.append("synchronize"))
    assert log == ["synchronize", "call", "synchronize"]
    log.clear()
    clocks.throughput([lambda: log.append("call")] * 3, lambda: log.append("synchronize"))
    assert log == ["synchronize", "call", "call", "call", "synchronize"]


@pytest.mark.parametrize(
    ("times", "budget", "stopped", "count"),
    [
        ([1.0] * 50, 1e9, sampling.TARGET, 10),
        ([1.0, 2.0, 5.0, 0.5] * 10, 1e9, sampling.MAXIMUM, 12),
        ([1.0] * 50, 0.0, sampling.SINGLE, 1),
    ],
)
def test_sampling_says_why_it_stopped(times, budget, stopped, count):
    remaining = iter(times)
    rule = sampling.Rule(budget, target=0.01, min_samples=6, max_samples=12)
    series = sampling.sample(lambda: next(remaining), rule, 1)
    assert (series.stopped, len(series.seconds)) == (stopped, count)
