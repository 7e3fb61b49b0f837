"""Ladder, ledger, prediction, transfers and boundary from records with planted truths."""

import dataclasses
import math

import numpy as np
import pytest
from onehot import advice, explanations, ledger, model, records, statistics, tables
from onehot.implementations.ladder import LADDERS
from onehot.records import (
    BackendRecord,
    ConfigurationRecord,
    LedgerRecord,
    LimitsRecord,
    MeasurementRecord,
    Plan,
)
from onehot.variant import CORRECTED, PUBLISHED, Variant

CONFIGURATION = {
    "seed": 3,
    "statistics": {"level": 0.95, "resamples": 200},
    "embedding": [300],
    "dtype": ["float32"],
}


def variant(implementation, backend="numpy", geometry=PUBLISHED, m=2048, **other):
    base = Variant(
        geometry, backend, implementation, m, 50_000, 300, "float32", "int64", "uniform", 0.0, "C", 1
    )
    return dataclasses.replace(base, **other)


def measurement(one, seconds, invocation, clock="throughput", distinct=()):
    generator = np.random.default_rng([invocation, len(one.implementation)])
    samples = (seconds * np.exp(0.002 * generator.standard_normal(12))).tolist()
    series = {"seconds": samples, "calls_per_sample": 1, "stopped": "target", "half_width": 0.01}
    return MeasurementRecord.model_validate(
        {
            "schema": 1, "kind": "measurement", "status": "ok", "reason": "", "invocation": invocation,
            "variant": dataclasses.asdict(one), "clocks": {clock: series}, "index_sets": 4,
            "distinct_rows": list(distinct),
        }
    )  # fmt: skip


def results(times, *, limits=(), ledgers=(), backends=(), clock="throughput"):
    """Records of three processes of each variant at its planted time."""
    measured = [measurement(one, t, k, clock) for one, t in times.items() for k in range(3)]
    plan = Plan.model_validate({"schema": 1, "kind": "plan", "machine": "here", "variants": []})
    return tables.Results(plan, CONFIGURATION, measured, [], [], list(limits), list(backends), list(ledgers))


def limits_record(backend, **seconds):
    limits = [
        {"name": name, "unit": "seconds" if value < 1 else "bytes_per_second", "kind": "x", "note": "",
         "clock": "throughput",
         "seconds": [value if value < 1 else 1.0], "amount": 0.0 if value < 1 else value}
        for name, value in seconds.items()
    ]  # fmt: skip
    return LimitsRecord.model_validate(
        {"schema": 1, "kind": "limits", "status": "ok", "reason": "", "backend": backend, "invocation": 0,
         "limits": limits}
    )  # fmt: skip


def test_a_planted_ladder_gives_back_what_each_cause_costs():
    names = [name for name, _ in LADDERS[PUBLISHED]]
    planted = {variant(name): 1e-3 * 2.0 ** (len(names) - k) for k, name in enumerate(names)}
    found = results(planted)
    frame = explanations.ladder(found, found.samples())
    assert frame["implementation"].tolist() == names
    expected = -np.diff(list(planted.values()))
    assert frame["removed"].to_numpy()[1:] == pytest.approx(expected, rel=0.01)
    assert math.isnan(frame["removed"].iloc[0])
    assert (frame["removed_low"][1:] < expected).all()
    assert (frame["removed_high"][1:] > expected).all()
    assert set(frame["verdict"][1:]) == {"faster"}
    total = frame["share"].sum()
    assert total == pytest.approx(1 - 2.0 ** -(len(names) - 1), rel=0.01)


def test_a_rung_that_was_not_measured_leaves_its_cause_to_the_next():
    found = results({variant("published_loop"): 8e-3, variant("rung_argmax_once"): 2e-3})
    frame = explanations.ladder(found, found.samples())
    assert frame["cause"].tolist() == ["as published", "asking h.any() at every step + an argmax a step"]


def test_a_difference_that_may_be_nothing_is_not_told_whatever_the_ratio_says():
    sides = [np.full(10, seconds) for seconds in (2.0, 2.1, 1.9)], [np.full(10, 1.0)] * 3
    rule = results({}).rule
    assert rule.ratio(*sides).verdict == "faster"
    told = {"removed_low": 0.5, "removed_high": 1.5}
    assert explanations._told(told, rule, *sides) == "faster"
    assert explanations._told(told | {"removed_low": -0.1}, rule, *sides) == "inconclusive"


def test_a_rung_that_costs_more_removes_less_than_nothing():
    found = results({variant("published_loop"): 1e-3, variant("rung_no_any"): 2e-3})
    frame = explanations.ladder(found, found.samples())
    assert frame["removed"].iloc[1] == pytest.approx(-1e-3, rel=0.01)
    assert frame["verdict"].iloc[1] == "slower"


def test_the_ladder_of_a_fortran_ordered_matrix_ends_at_the_same_gather():
    planted = {variant("published_loop", layout=layout): 8e-3 for layout in "CF"}
    planted |= {variant("published_gather", layout="F"): 1e-3, variant("rung_take"): 5e-4}
    found = results(planted)
    frame = explanations.ladder(found, found.samples())
    fortran = frame.iloc[-3:]
    assert fortran["implementation"].tolist() == ["published_loop", "published_gather", "rung_take"]
    assert fortran["layout"].tolist() == ["F", "F", "C"]


def test_two_minibatches_are_two_ladders():
    found = results({variant("published_loop", m=m): 8e-3 for m in (64, 2048)})
    assert len(explanations.ladder(found, found.samples())) == 2


def ledger_record(one, counts=None, **body):
    return LedgerRecord.model_validate(
        {
            "schema": 1, "kind": "ledger", "status": "ok", "reason": "", "variant": dataclasses.asdict(one),
            "counts": counts, **body,
        }
    )  # fmt: skip


def published_counts():
    activities = [
        *[ledger.Activity("kernel", "cupy_argmax", 0, 2e-6)] * 300,
        *[ledger.Activity("kernel", "cupy_any", 0, 1e-6)] * 599,
        *[ledger.Activity("kernel", "cupy_take", 0, 1e-6)] * 300,
        *[ledger.Activity("kernel", "cupy_copy", 0, 1e-6)] * 598,
        *[ledger.Activity("copy", "DTOH", 1)] * 300,
        ledger.Activity("memset", "memset", 8),
        *[ledger.Activity("synchronization", "STREAM_SYNCHRONIZE")] * 301,
        *[ledger.Activity("synchronization", "STREAM_WAIT_EVENT")] * 5,
        *[ledger.Activity("driver", "cuLaunchKernel")] * 1797,
    ]
    return dataclasses.asdict(ledger.count(activities))


def test_the_ledger_stands_beside_what_the_structure_predicts():
    one = variant("published_loop", "cupy")
    record = ledger_record(
        one,
        published_counts(),
        counted_by=["cupti", "memory_hook"],
        device_memory={
            "warm": {"requests": 10, "request_bytes": 5, "real": 0, "real_bytes": 0, "peak_bytes": 99}
        },
    )
    row = explanations.ledger(results({}, ledgers=[record])).iloc[0]
    assert (row["kernels"], row["predicted_kernels"]) == (1797, 1798)
    assert (row["to_host"], row["predicted_to_host"]) == (300, 300)
    assert (row["synchronizations"], row["predicted_synchronizations"]) == (301, 301)
    assert row["memsets"] == 1
    assert row["kernel_seconds"] == pytest.approx(2097e-6)
    assert row["counted_by"] == "cupti+memory_hook"
    assert row["derived_bytes_written"] == (300 * 301 // 2 - 1) * 1200
    names = explanations.kernels(results({}, ledgers=[record]))
    assert dict(zip(names["kernel"], names["launches"], strict=True))["cupy_any"] == 599


def test_a_ledger_without_cupti_says_why():
    record = ledger_record(
        variant("fancy_index", "cupy", CORRECTED),
        absent={"cupti": "no ledger: cupti-python does not import"},
        counted_by=["memory_hook"],
    )
    row = explanations.ledger(results({}, ledgers=[record])).iloc[0]
    assert math.isnan(row["kernels"])
    assert "no ledger" in row["reason"]


def test_a_planted_cost_predicts_the_time_that_it_makes():
    one = variant("take", "cupy", CORRECTED, m=64)
    costs = {"take_few": 2e-5, "read_bandwidth": 1e12, "write_bandwidth": 1e12, "l2_read_bandwidth": 1e12}
    found = results({one: 2e-5}, limits=[limits_record("cupy", **costs)])
    frame = explanations.prediction(found, found.samples())
    assert frame["ratio"].iloc[0] == pytest.approx(1.0, rel=0.01)
    summary = explanations.accuracy(frame).iloc[0]
    assert summary["worst_factor"] < 1.01
    assert summary["within_25_percent"] == 1


def test_a_prediction_that_fails_says_which_limits_it_did_without():
    one = variant("take", "cupy", CORRECTED, m=64)
    costs = {"take_few": 2e-5, "read_bandwidth": 1e12, "write_bandwidth": 1e12, "l2_read_bandwidth": 1e12}
    record = limits_record("cupy", **costs)
    for seconds, fails in ((2e-5, False), (3.9e-5, False), (4.1e-5, True), (0.9e-5, True)):
        found = results({one: seconds}, limits=[record])
        reason = explanations.prediction(found, found.samples())["reason"].iloc[0]
        assert bool(reason) == fails
        assert ("never measured: gather_element" in reason) == fails


def test_a_loop_whose_prediction_fails_names_what_the_structure_leaves_out():
    found = model.Prediction(1.0, 1.0, 0.0, 0.0, largest="vstack_two")
    loop, take = variant("published_loop", "cupy"), variant("take", "cupy", CORRECTED)
    loose, firm = (
        statistics.Estimate(2.5, low, high, 2.4, 2.6, 2.4, invocations=5, samples=50, outliers=0)
        for low, high in ((0.5, 9.0), (2.4, 2.6))
    )
    assert explanations._failure(loop, found, firm) == model.IN_A_LOOP
    assert "interval holds" in explanations._failure(loop, found, loose)
    assert explanations._failure(take, found, firm) == "most of the prediction is vstack_two"


def test_a_variant_without_its_limits_is_not_predicted_and_says_why():
    one = variant("take", "cupy", CORRECTED, m=64)
    found = results({one: 2e-5})
    frame = explanations.prediction(found, found.samples())
    assert math.isnan(frame["ratio"].iloc[0])
    assert "take_few" in frame["reason"].iloc[0]
    assert explanations.accuracy(frame).empty


def test_the_predicted_crossover_lies_where_the_planted_costs_put_it():
    """NumPy moves 2.4 kB a row at 10 GB/s, CuPy takes 24 us whatever m is: they meet at m = 100."""
    on_cupy = limits_record("cupy", take_few=24e-6, read_bandwidth=1e15, write_bandwidth=1e15)
    rates = dict.fromkeys(
        (
            "copy_bandwidth",
            "copy_bandwidth_cached",
            "read_bandwidth",
            "write_bandwidth",
            "first_touch_bandwidth",
        ),
        1e10,
    )
    on_numpy = limits_record("numpy", take_few=1e-9, **rates)
    times = {}
    for m in (64, 256):
        times[variant("take", "numpy", CORRECTED, m=m)] = m * 2400 / 1e10
        times[variant("take", "cupy", CORRECTED, m=m)] = 24e-6
    found = results(times, limits=[on_cupy, on_numpy])
    crossovers = tables.crossover(tables.speedup(found, found.samples()))
    row = explanations.predicted_crossover(found, crossovers).iloc[0]
    assert row["predicted"] == 128
    assert 64 < row["measured"] < 256


def test_transfers_say_where_cupy_wins_then():
    times = {}
    for m, on_numpy, there_and_back in ((64, 1e-5, 1e-4), (4096, 1e-3, 3e-4)):
        times[variant("fancy_index", "numpy", CORRECTED, m=m)] = on_numpy
        times[variant("fancy_index", "cupy", CORRECTED, m=m)] = 5e-6
        times[variant("pageable_in_out", "cupy", CORRECTED, m=m)] = there_and_back
    found = results(times)
    frame = explanations.transfers(found, found.samples())
    described = dict(zip(frame["implementation"], frame["crossover"], strict=True))
    assert described["fancy_index"] == "faster at every minibatch measured"
    assert described["pageable_in_out"].startswith("at about")


def test_the_dense_one_hot_stops_fitting_where_its_bytes_fill_the_memory():
    backend = BackendRecord.model_validate(
        {
            "schema": 1,
            "kind": "backend",
            "status": "ok",
            "reason": "",
            "backend": "cupy",
            "free_bytes": 140 * 10**9,
        }
    )
    frame = explanations.boundary(results({}, backends=[backend]))
    dense = frame[(frame["representation"] == "one-hot") & (frame["minibatch"] == 65536)].iloc[0]
    v = dense["largest_vocabulary"]
    needed = 65536 * v * 4 + v * 1200 + 65536 * 1200
    assert needed <= 140 * 10**9 < needed + 65536 * 4 + 1200
    indices = frame[(frame["representation"] == "indices") & (frame["minibatch"] == 65536)].iloc[0]
    assert indices["largest_vocabulary"] > 100 * v


def test_contrasts_pair_what_differs_in_one_factor_alone():
    zipf = {"distribution": "zipf", "zipf_exponent": 1.0}
    times = {
        variant("published_loop", layout="C"): 8e-3,
        variant("published_loop", layout="F"): 4e-3,
        variant("take", geometry=CORRECTED): 3e-4,
        variant("take", geometry=CORRECTED, **zipf): 1e-4,
    }
    found = results(times)
    frame = explanations.contrasts(found, found.samples())
    ratios = dict(zip(frame["factor"], frame["ratio"], strict=True))
    assert ratios["memory order of X"] == pytest.approx(2, rel=0.01)
    assert ratios["law of the indices"] == pytest.approx(3, rel=0.01)


def test_nothing_measured_gives_tables_without_rows():
    found = results({})
    frames = tables.everything(found)
    made = explanations.everything(found, frames)
    assert made["ladder"].empty
    assert made["boundary"].empty
    assert set(made["claims"]["verdict"]) == {"no evidence"}


def test_a_ledger_is_read_and_sorted_out_by_the_tables(tmp_path):
    record = ledger_record(variant("published_loop", "cupy"), published_counts())
    plan = results({}).plan
    body = {"schema": 1, "kind": "configuration", "machine": "here", "hash": "", "git": {}}
    asked = ConfigurationRecord.model_validate({**body, "configuration": CONFIGURATION})
    pairs = [(tmp_path / f"{number}.json", one) for number, one in enumerate((plan, asked, record))]
    sorted_out = tables.collect(pairs)
    assert sorted_out.ledgers == [record]
    assert isinstance(record, records.LedgerRecord)


@pytest.mark.parametrize("ending", ["csv", "md", "tex", "html"])
def test_every_table_is_written_in_every_format(tmp_path, ending):
    from onehot import catalogue, explanation_presentation, presentation

    times = {variant(name): 1e-3 / (k + 1) for k, (name, _) in enumerate(LADDERS[PUBLISHED])}
    times |= {variant("fancy_index", backend, CORRECTED): 1e-4 for backend in ("numpy", "cupy")}
    record = ledger_record(variant("published_loop", "cupy"), published_counts(), counted_by=["cupti"])
    found = results(times, ledgers=[record])
    frames = advice.everything(found)
    names = [name for name in explanation_presentation.PRESENTED if name in frames]
    assert {item.name for item in catalogue.TABLES} <= set(frames)
    for name in names:
        path = tmp_path / f"{name}.{ending}"
        presentation.write(frames[name], name, path)
        assert path.read_text().strip()
