"""Tables from records with planted truths."""

import io

import numpy as np
import pandas as pd
import pytest
from onehot import presentation, records, tables
from records_for_tests import measurement, provenance, run, variant, write, write_frame


def results_of(tmp_path, written) -> tables.Results:
    asked = list(
        {str(record["variant"]): record["variant"] for record in written if "variant" in record}.values()
    )
    paths = write_frame(tmp_path, asked)
    for number, record in enumerate(written):
        if "run" in record:
            record["run"] = run(10.0 * number)
        paths.append(write(tmp_path / f"{number}.json", record))
    return tables.collect(records.read_all(paths))


def noisy(median, invocation, count=30):
    return (median * np.random.default_rng(invocation).normal(1, 0.01, count)).tolist()


def three(implementation, backend, minibatch, median, **changes):
    return [
        measurement(implementation, backend, minibatch, number, noisy(median, number), **changes)
        for number in range(3)
    ]


def test_summary_recovers_a_planted_median_with_an_interval_round_it(tmp_path):
    results = results_of(tmp_path, three("take", "numpy", 64, 2e-3))
    row = tables.summary(results, results.samples()).iloc[0]
    assert row["median"] == pytest.approx(2e-3, rel=0.01) and row["low"] < row["median"] < row["high"]
    assert (row["invocations"], row["samples"]) == (3, 90)


def test_speedup_recovers_a_planted_ratio_beside_both_times(tmp_path):
    written = three("loop_vstack", "numpy", 64, 8e-3) + three("fancy_index", "numpy", 64, 1e-3)
    results = results_of(tmp_path, written)
    frame = tables.speedup(results, results.samples())
    row = frame[(frame["implementation"] == "fancy_index") & (frame["clock"] == "latency")].iloc[0]
    assert row["speedup"] == pytest.approx(8, rel=0.02) and row["verdict"] == "faster"
    assert row["baseline_seconds"] == pytest.approx(8e-3, rel=0.01)


def test_unlike_work_never_shares_a_speedup(tmp_path):
    written = (
        three("published_loop", "numpy", 64, 1e-2)
        + three("fancy_index", "numpy", 64, 1e-3)
        + three("fancy_index", "cupy", 64, 1e-3, dtype="float64", gpu_name="G")
    )
    results = results_of(tmp_path, written)
    assert tables.speedup(results, results.samples()).empty


def test_the_enqueue_and_device_clocks_are_never_ranked(tmp_path):
    timed = {"enqueue": [1e-6], "device_cold": [1e-6], "throughput": [1e-5], "latency": [1e-5]}
    written = three("fancy_index", "numpy", 64, 1e-4)
    written.append(measurement("fancy_index", "cupy", 64, 0, clocks=timed, gpu_name="G"))
    results = results_of(tmp_path, written)
    assert set(tables.speedup(results, results.samples())["clock"]) == {"latency", "throughput"}


def test_the_crossover_is_bracketed_where_it_was_planted(tmp_path):
    written = []
    for minibatch, cupy in ((64, 4e-5), (256, 4e-5), (1024, 4e-5), (4096, 4e-5)):
        written += three("fancy_index", "numpy", minibatch, minibatch * 1e-7)
        written += three("fancy_index", "cupy", minibatch, cupy, gpu_name="G")
    results = results_of(tmp_path, written)
    frame = tables.crossover(tables.speedup(results, results.samples()))
    row = frame[frame["clock"] == "throughput"].iloc[0]
    assert row["kind"] == "crosses" and (row["low"], row["high"]) == (256, 1024)
    assert row["minibatch"] == pytest.approx(400, rel=0.05)


def test_no_crossover_says_none_in_range(tmp_path):
    written = []
    for minibatch in (64, 256):
        written += three("fancy_index", "numpy", minibatch, 1e-6)
        written += three("fancy_index", "cupy", minibatch, 1e-3, gpu_name="G")
    results = results_of(tmp_path, written)
    assert "none in range" in set(tables.crossover(tables.speedup(results, results.samples()))["description"])


def test_every_planned_variant_has_a_status_with_its_reason(tmp_path):
    written = [
        measurement("take", minibatch=64),
        measurement("take", minibatch=256, status="failed", reason="WrongResultError: off by one"),
        measurement("take", minibatch=1024, status="skipped", reason="needs 26.2 GB, 16 GB are free"),
    ]
    results = results_of(tmp_path, written)
    frame = tables.status(results).set_index("minibatch")
    assert frame["status"].to_dict() == {64: "ok", 256: "failed", 1024: "skipped"}
    assert "off by one" in frame.loc[256, "reason"] and "26.2 GB" in frame.loc[1024, "reason"]


def test_a_variant_whose_job_left_no_record_is_failed_not_missing(tmp_path):
    paths = write_frame(tmp_path, [variant("take")])
    frame = tables.status(tables.collect(records.read_all(paths)))
    assert frame["status"].tolist() == ["failed"] and "no record" in frame["reason"][0]


def test_the_extrapolation_stands_beside_the_full_run_and_the_questions_numbers(tmp_path):
    full = {
        "schema": 1,
        "kind": "headline",
        "status": "ok",
        "reason": "",
        "variant": variant("published_loop", minibatch=2048),
        "minibatches": 1570,
        "seconds": 15.0,
        "seconds_at_tenths": [15.0],
        "provenance": provenance(),
        "run": run(),
    }
    written = [*three("published_loop", "numpy", 2048, 1e-2), full]
    results = results_of(tmp_path, written)
    frame = tables.headline(results, results.samples()).set_index(["backend", "source"])["seconds"]
    assert frame["numpy", "extrapolated"] == pytest.approx(15.7, rel=0.01)
    assert frame["numpy", "measured"] == 15.0
    assert (frame["numpy", "published"], frame["cupy", "published"]) == (16.55, 152.15)


def test_limits_become_rates_with_the_interval_the_right_way_round(tmp_path):
    def limits(number):
        limit = {"unit": "bytes_per_second", "kind": "copy", "amount": 1e9, "note": "", "clock": "throughput"}
        limit |= {"name": "copy_bandwidth", "seconds": noisy(0.5, number)}
        rest = {"schema": 1, "kind": "limits", "status": "ok", "reason": "", "backend": "numpy"}
        return {**rest, "invocation": number, "provenance": provenance(), "run": run(), "limits": [limit]}

    row = tables.limits(results_of(tmp_path, [limits(number) for number in range(3)])).iloc[0]
    assert row["value"] == pytest.approx(2e9, rel=0.01) and row["low"] < row["value"] < row["high"]


@pytest.mark.parametrize("name", list(presentation.PRESENTED))
@pytest.mark.parametrize("ending", ["csv", "md", "tex", "html"])
def test_every_table_comes_out_with_nothing_measured_at_all(tmp_path, name, ending):
    frame = tables.everything(tables.collect(records.read_all(write_frame(tmp_path))))[name]
    target = tmp_path / f"{name}.{ending}"
    presentation.write(frame, name, target)
    assert target.read_text().strip()


def test_minibatches_stay_numbers_and_names_like_none_survive_a_csv(tmp_path):
    results = results_of(tmp_path, [measurement("take", minibatch=m) for m in (16, 2048, 256)])
    frame = tables.summary(results, results.samples())
    assert frame["minibatch"].drop_duplicates().tolist() == [16, 256, 2048]
    text = pd.DataFrame({"reason": ["None", "NA", "nan"]}).to_csv(index=False)
    assert pd.read_csv(io.StringIO(text), keep_default_na=False)["reason"].tolist() == ["None", "NA", "nan"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.5, "1.5 s"),
        (0.0123, "12.3 ms"),
        (9.99e-5, "99.9 µs"),
        (7e-9, "7 ns"),
        (152.15, "152 s"),
        (float("nan"), "–"),
    ],
)
def test_times_have_units_that_a_reader_expects(seconds, text):
    assert presentation.seconds_text(seconds) == text


def test_one_process_alone_gives_no_interval_and_says_so(tmp_path):
    results = results_of(tmp_path, [measurement("take")])
    shown = presentation.summary(tables.summary(results, results.samples()))
    assert shown["median [95 % interval]"].str.contains("no interval").all()
