"""Machines side by side, from records with planted truths."""

import numpy as np
import pytest
from onehot import comparison, comparison_figures, records, tables
from onehot.errors import RecordError, StudyError
from records_for_tests import measurement, run, write, write_frame


def results_of(folder, median, hostnames=("node1",), **changes) -> tables.Results:
    """One variant, a process for each host name in turn."""
    written = [
        measurement(invocation=number, hostname=host, seconds=noisy(median, number), **changes)
        for number, host in enumerate(hostnames)
    ]
    folder.mkdir()
    paths = write_frame(folder, [written[0]["variant"]])
    for number, record in enumerate(written):
        record["run"] = run(10.0 * number)
        paths.append(write(folder / f"{number}.json", record))
    return tables.collect(records.read_all(paths))


def noisy(median, invocation, count=30):
    return (median * np.random.default_rng(invocation).normal(1, 0.01, count)).tolist()


@pytest.fixture
def two(tmp_path):
    return {
        "slow": results_of(tmp_path / "slow", 4e-3, ("a1", "a2", "a1"), cpu_model="old"),
        "fast": results_of(tmp_path / "fast", 1e-3, ("b1", "b1", "b1"), cpu_model="new"),
    }


def test_identical_nodes_of_one_label_are_accepted_and_counted(two):
    frame = comparison.machines(two).set_index("machine")
    assert frame.loc["slow", ["cpu", "nodes", "records"]].tolist() == ["old", 2, 3]
    assert frame.loc["fast", ["cpu", "nodes", "records"]].tolist() == ["new", 1, 3]


def test_a_record_of_another_kind_of_node_is_refused_by_name(tmp_path):
    good = measurement(hostname="a1", cpu_model="old")
    foreign = measurement(invocation=1, hostname="b1", cpu_model="new", start=10.0)
    paths = write_frame(tmp_path, [good["variant"]])
    paths += [write(tmp_path / "good.json", good), write(tmp_path / "foreign.json", foreign)]
    with pytest.raises(RecordError, match=r"foreign\.json was measured on another kind of machine"):
        tables.collect(records.read_all(paths))


def test_two_labels_for_one_node_are_refused(tmp_path):
    same = {name: results_of(tmp_path / name, 1e-3, ("a1",)) for name in ("one", "other")}
    with pytest.raises(StudyError, match="results/one and results/other were both measured on a1"):
        comparison.machines(same)


def test_each_machine_has_columns_of_its_own(two):
    frame = comparison.summary({label: tables.summary(one, one.samples()) for label, one in two.items()})
    assert len(frame) == 2  # latency and throughput
    assert frame["median slow"].tolist() == pytest.approx([4e-3, 4e-3], rel=0.02)
    assert frame["median fast"].tolist() == pytest.approx([1e-3, 1e-3], rel=0.02)


def test_a_variant_that_one_machine_lacks_is_left_empty_there(two, tmp_path):
    more = two | {"third": results_of(tmp_path / "third", 2e-3, ("c1",), implementation="take")}
    frame = comparison.summary({label: tables.summary(one, one.samples()) for label, one in more.items()})
    take = frame[frame["implementation"] == "take"]
    assert take["median slow"].isna().all()
    assert take["median third"].notna().all()


def test_speedup_of_a_machine_stands_beside_both_times(two):
    frame = comparison.speedup(two, "slow")
    assert set(frame["machine"]) == {"fast"}
    row = frame.iloc[0]
    assert row["speedup"] == pytest.approx(4, rel=0.05)
    assert row["low"] < row["speedup"] < row["high"]
    assert row["verdict"] == "faster"
    assert row["baseline_seconds"] / row["seconds"] == pytest.approx(4, rel=0.05)


def test_the_figure_shows_every_machine_but_the_baseline(two):
    drawn = comparison_figures.speedup(comparison.speedup(two, "slow"))
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["NumPy on fast"]
    assert [line.get_label() for line in drawn.axes[0].containers] == ["fancy_index"]


def test_the_figure_says_that_there_is_nothing_to_compare(two, tmp_path):
    other = two | {"fast": results_of(tmp_path / "other", 1e-3, ("b1",), implementation="take")}
    drawn = comparison_figures.speedup(comparison.speedup(other, "slow"))
    assert any(
        "no variant was measured" in text.get_text().replace("\n", " ") for text in drawn.axes[0].texts
    )
