"""Bounds of planted limits, the flag of what is too fast, and what to write by planted times."""

import dataclasses

import pandas as pd
import pytest
from onehot import advice, bounds, frames, implementations, model
from onehot.figures import FIGURES
from onehot.model import Cost, Machine
from test_explanations import limits_record, measurement, results, variant

MIB = 1 << 20
RATES = {"l2_read_bandwidth": 8e12, "read_bandwidth": 4e12, "write_bandwidth": 4e12, "copy_bandwidth": 4e12}


def machine(**changes):
    costs = {("cupy", name): Cost(rate, "bytes_per_second") for name, rate in RATES.items()}
    costs |= {("cupy", "launch"): Cost(4e-6, "seconds"), ("cupy", "python_call"): Cost(0.0, "seconds")}
    host = {"copy_bandwidth": 1e10, "copy_bandwidth_cached": 4e10, "copy_bandwidth_last": 2e10}
    costs |= {("numpy", name): Cost(rate, "bytes_per_second") for name, rate in host.items()}
    costs |= {("numpy", "take_out_few"): Cost(1e-6, "seconds")}
    return Machine(costs, **{"device_l2_bytes": 60 * MIB, "l2_bytes": MIB, "l3_bytes": 32 * MIB, **changes})


def gpu(m, name="raw_kernel_out", **other):
    return variant(name, "cupy", "corrected", m=m, **other)


def test_a_small_minibatch_is_bound_by_its_launch_and_a_graph_shares_it():
    found = bounds.bound(gpu(64), "throughput", 64, 4, machine())
    assert (found.binding, found.seconds) == ("launch", 4e-6)
    shared = bounds.bound(gpu(64, "cuda_graph"), "throughput", 64, 400, machine())
    assert shared.launch_seconds == pytest.approx(4e-8)
    assert bounds.bound(gpu(64), "device_hot", 64, 4, machine()).launch_seconds == 0


def test_rows_that_fit_in_the_l2_come_from_it_and_the_result_goes_to_memory():
    rows, row = 1 << 20, 1200
    found = bounds.bound(gpu(rows), "throughput", 50_000, 4, machine())
    assert found.bytes_seconds == pytest.approx(rows * row / 8e12 + rows * row / 4e12)
    assert found.floor_seconds == pytest.approx(rows * row / 4e12)
    assert found.binding == "cache and memory"
    cold = bounds.bound(gpu(rows), "device_cold", 50_000, 4, machine())
    once, again = 50_000 * row, (rows - 50_000) * row
    assert cold.bytes_seconds == pytest.approx(once / 4e12 + again / 8e12 + rows * row / 4e12)
    large = bounds.bound(gpu(rows, vocabulary=10**6), "throughput", 600_000, 4, machine())
    assert large.binding == "memory" and large.seconds > found.seconds


def test_rows_that_fill_more_than_half_of_the_l2_are_read_at_the_rate_of_the_whole():
    whole = machine()
    whole.costs["cupy", "l2_read_bandwidth_whole"] = Cost(6e12, "bytes_per_second")
    filling = bounds.bound(gpu(1 << 20), "throughput", 50_000, 4, whole)
    assert filling.bytes_seconds == pytest.approx((1 << 20) * 1200 * (1 / 6e12 + 1 / 4e12))
    assert filling.floor_seconds == pytest.approx((1 << 20) * 1200 / 4e12)
    half = bounds.bound(gpu(1 << 20, vocabulary=20_000), "throughput", 20_000, 4, whole)
    assert half.bytes_seconds == pytest.approx((1 << 20) * 1200 * (1 / 8e12 + 1 / 4e12))


def test_the_floor_leaves_a_result_in_the_cache_where_it_fits_alone():
    m = 16_384
    found = bounds.bound(gpu(m), "throughput", 14_000, 4, machine())
    assert found.binding == "cache and memory"
    assert found.floor_seconds == pytest.approx(m * 1200 / 8e12) and found.floor_seconds < found.bytes_seconds
    graph = bounds.bound(gpu(m, "cuda_graph"), "throughput", 14_000, 400, machine())
    assert graph.floor_seconds == pytest.approx(m * 1200 / 4e12)  # a hundred results do not fit


def test_several_threads_have_as_many_caches_and_one_memory():
    one = variant("numba_prange_out", "numba", "corrected", m=2048, threads=0)
    alone = bounds.bound(dataclasses.replace(one, threads=1), "throughput", 2048, 1, machine(cores=16))
    together = bounds.bound(one, "throughput", 2048, 1, machine(cores=16))
    assert alone.bytes_seconds == pytest.approx(2 * 2048 * 1200 / 2e10)
    assert together.bytes_seconds == pytest.approx(2 * 2048 * 1200 / 4e10 / 16)
    with pytest.raises(model.MissingLimitError, match="copy_bandwidth_all"):
        bounds.bound(dataclasses.replace(one, minibatch=1 << 20), "throughput", 50_000, 1, machine(cores=16))


def test_what_fits_in_the_cache_whole_never_goes_to_memory():
    found = bounds.bound(gpu(4096), "device_hot", 4000, 4, machine())
    assert found.binding == "cache" and found.bytes_seconds == pytest.approx((4096 + 4096) * 1200 / 8e12)


def test_the_cpu_is_bound_by_the_nearest_memory_that_holds_both():
    for m, rate, where in ((64, 4e10, "cache"), (2048, 2e10, "cache"), (1 << 16, 1e10, "memory")):
        found = bounds.bound(variant("take_out", "numpy", "corrected", m=m), "throughput", m, 1, machine())
        assert found.bytes_seconds == pytest.approx(2 * m * 1200 / rate), m
        assert found.binding == where


def test_a_limit_that_was_not_measured_leaves_a_reason_and_no_bound():
    with pytest.raises(model.MissingLimitError, match="read_bandwidth"):
        bounds.bound(gpu(64), "throughput", 64, 4, Machine({}, device_l2_bytes=1))


def of(times, clock="throughput", **limits):
    """Results of three processes at planted times, with planted limits of CuPy."""
    planted = {**RATES, "launch": 4e-6, **limits}
    found = results({}, limits=[limits_record("cupy", **planted)])
    measured = [
        measurement(one, seconds, k, clock, distinct=[one.minibatch])
        for one, seconds in times.items()
        for k in range(3)
    ]
    return dataclasses.replace(found, measurements=measured)


def test_a_time_that_no_memory_allows_is_flagged_and_a_fast_one_is_not():
    rows = 1 << 20
    floor = rows * 1200 / 4e12
    times = {
        gpu(rows): 0.5 * floor,
        gpu(rows, "raw_kernel"): 1.02 * floor,
        gpu(rows, "take_out"): 0.97 * floor,
    }
    found = of(times)
    frame = bounds.bounds(found, found.samples())
    flags = dict(zip(frame["implementation"], frame["implausible"], strict=True))
    assert "throughput beats what its bytes need by 1.9" in flags["raw_kernel_out"]
    assert flags["raw_kernel"] == flags["take_out"] == ""
    status = pd.DataFrame([dataclasses.asdict(one) for one in times]).assign(status="ok")
    marked = bounds.flagged(status, frame).set_index("implementation")["implausible"]
    assert marked["raw_kernel_out"] and not marked["raw_kernel"]
    assert bounds.flagged(status, frame.iloc[:0])["implausible"].tolist() == ["", "", ""]


def test_a_loop_is_no_lookup_of_the_figure_and_training_has_no_bound():
    found = of({gpu(64, "loop_vstack"): 1e-3, gpu(64, "take"): 1e-5, gpu(64, "scatter_add_at"): 1e-5})
    frame = bounds.bounds(found, found.samples())
    assert set(frame["implementation"]) == {"loop_vstack", "take"}
    assert set(bounds.gathers(frame)["implementation"]) == {"take"}


@pytest.mark.parametrize("times", [{}, {gpu(64): 1e-5}, {gpu(m, n): m * 1e-9 + 1e-5 for m in (64, 4096)
                                                         for n in ("take", "raw_kernel_out")}],
                         ids=["nothing", "one point", "lines"])  # fmt: skip
def test_the_figure_is_drawn_whatever_was_measured(times, tmp_path):
    found = of(times)
    made = bounds.bounds(found, found.samples())
    typed = frames._typed(made, frames.SCHEMA["bounds"])
    drawn = FIGURES["bounds"](dataclasses.replace(frames.empty("here"), bounds=typed))
    drawn.savefig(tmp_path / "figure.png")
    words = " ".join(text.get_text() for axes in drawn.axes for text in axes.texts)
    assert ("no lookup" in words) == (not times)


# What to write -----------------------------------------------------------------------------------


def test_simplicity_counts_lines_of_function_preparation_and_kernel():
    lines = {name: advice.lines_of_code(implementations.get(name, "cupy")) for name in
             ("fancy_index", "take_out", "raw_kernel", "raw_kernel_out", "cuda_graph")}  # fmt: skip
    assert lines["fancy_index"] == 2
    assert lines["fancy_index"] < lines["take_out"] < lines["raw_kernel"] < lines["raw_kernel_out"]
    assert lines["raw_kernel"] > 30 and lines["cuda_graph"] > lines["raw_kernel"]


def test_advice_names_the_fastest_the_ties_and_the_simplest_nearly_as_fast():
    seconds = {
        64: {"fancy_index": 10e-6, "raw_kernel_out": 9.5e-6, "take": 20e-6},
        128: {"fancy_index": 10e-6, "raw_kernel_out": 9.5e-6, "take": 20e-6},
        4096: {"fancy_index": 50e-6, "raw_kernel_out": 20e-6, "take": 50e-6},
    }
    found = of({gpu(m, name): t for m, by_name in seconds.items() for name, t in by_name.items()})
    rows = advice.advice(found, found.samples()).to_dict("records")
    said = [(row["smallest"], row["largest"], row["fastest"], row["simplest"]) for row in rows]
    assert said == [
        (64, 128, "raw_kernel_out", "fancy_index"),
        (4096, 4096, "raw_kernel_out", "raw_kernel_out"),
    ]
    assert all(row["ties"] == "" for row in rows)
    assert rows[0]["factor"] == pytest.approx(10 / 9.5, rel=0.01)


def test_advice_never_mixes_starting_points_rungs_or_training():
    names = ("argmax_take", "dense_dot", "fancy_index", "take", "corrected_no_any", "scatter_add_at")
    found = of({gpu(64, name): (1 + k) * 1e-5 for k, name in enumerate(names)})
    rows = advice.advice(found, found.samples()).set_index("start")
    assert rows["fastest"].to_dict() == {"one-hot X": "argmax_take", "tokens": "fancy_index"}


def test_a_graph_is_advised_to_those_alone_who_know_many_minibatches():
    found = of({gpu(2048, "cuda_graph"): 3e-6, gpu(2048, "take"): 20e-6, gpu(2048, "raw_kernel_out"): 7e-6})
    rows = advice.advice(found, found.samples()).set_index("start")
    assert rows["fastest"].to_dict() == {"tokens": "raw_kernel_out", advice.MANY: "cuda_graph"}
    torch = variant("torch_index", "torch_cuda", "corrected")
    both = of({gpu(2048, "cuda_graph"): 3e-6, gpu(2048, "raw_kernel_out"): 7e-6, torch: 9e-6})
    samples = both.samples()
    frame = advice.targets(both, samples, bounds.bounds(both, samples)).set_index(["target", "minibatch"])
    assert frame.loc[("fastest single call against the best one of torch", 2048), "by"] == "raw_kernel_out"
    assert frame.loc[("fastest single call against the best one of torch", 2048), "verdict"] == "missed"


def test_targets_are_judged_by_their_interval_and_say_what_was_not_measured():
    m = 1 << 20
    times = {gpu(m, "fancy_index"): 4e-3, gpu(m, "raw_kernel_out"): 1e-3, gpu(2048, "cuda_graph"): 3e-6}
    found = of(times)
    samples = found.samples()
    frame = advice.targets(found, samples, bounds.bounds(found, samples)).set_index(["target", "minibatch"])
    verdicts = frame["verdict"]
    assert verdicts["fastest single call against CuPy's W0[J]", m] == "reached"
    assert verdicts["fastest single call against CuPy's W0[J]", 131_072] == "not measured"
    assert verdicts["fastest single call, fraction of the bound", m] == "missed"
    assert verdicts["graph, at most so many microseconds a minibatch", 2048] == "missed"
    assert frame.loc[("fastest single call against CuPy's W0[J]", m), "value"] == pytest.approx(4, rel=0.01)


def test_nothing_measured_gives_empty_tables():
    found = of({})
    assert bounds.bounds(found, {}).empty and advice.advice(found, {}).empty
    assert set(advice.targets(found, {}, bounds.bounds(found, {}))["verdict"]) == {"not measured"}
