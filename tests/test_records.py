"""Records: strict reading, and the refusals that keep two machines or two jobs from mixing."""

import json
from pathlib import Path

import pytest
from onehot import records, tables
from onehot.errors import RecordError
from records_for_tests import measurement, write, write_frame


def test_a_record_comes_back_as_it_was_written(tmp_path):
    path = write(tmp_path / "a.json", measurement(seconds=[1e-3, 2e-3]))
    read = records.read(path)
    assert isinstance(read, records.MeasurementRecord)
    assert read.clocks["latency"].seconds == [1e-3, 2e-3]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda text: text[: len(text) // 2], "is no record"),
        (lambda text: text + "{}", "Extra data"),
        (lambda text: text.replace("0.001", "NaN"), "NaN is not a number"),
        (lambda text: text.replace("0.001", "0"), "greater than 0"),
        (lambda text: text.replace("0.001", "-0.001"), "greater than 0"),
        (
            lambda text: text.replace('"invocation":0', '"invocation":0,"invocation":1'),
            "'invocation' stands twice",
        ),
        (lambda text: text.replace('"invocation":0', '"invocation":0,"foreign":1'), "Extra inputs"),
        (lambda text: text.replace('"kind":"measurement"', '"kind":"recipe"'), "recipe"),
        (lambda text: text.replace('"schema":1', '"schema":2'), "schema"),
        (lambda text: "", "is no record"),
        (lambda text: "[]", "is no record"),
    ],
)
def test_a_file_that_no_job_of_the_study_wrote_is_refused_by_name(tmp_path, spoil, words):
    path = write(tmp_path / "spoilt.json", measurement(seconds=[0.001]))
    path.write_text(spoil(path.read_text()))
    with pytest.raises(RecordError, match=words) as caught:
        records.read(path)
    assert "spoilt.json" in str(caught.value) and "Delete it" in str(caught.value)


def collected(tmp_path: Path, *written) -> tables.Results:
    paths = write_frame(tmp_path)
    paths += [write(tmp_path / f"{number}.json", record) for number, record in enumerate(written)]
    return tables.collect(records.read_all(paths))


def test_identity_is_read_from_the_record_and_never_from_the_path(tmp_path):
    results = collected(tmp_path, measurement(implementation="take"))
    assert results.measurements[0].variant.implementation == "take"


def test_two_records_of_one_invocation_are_refused(tmp_path):
    with pytest.raises(RecordError, match="both claim to be invocation 0"):
        collected(tmp_path, measurement(), measurement())


def test_a_record_of_another_kind_of_machine_is_refused_by_name(tmp_path):
    with pytest.raises(RecordError, match=r"1\.json was measured on another kind of machine.*cpu_model"):
        collected(tmp_path, measurement(), measurement(invocation=1, start=10, cpu_model="another"))


def test_a_record_of_another_gpu_is_refused_by_name(tmp_path):
    first = measurement(backend="cupy", gpu_name="A")
    other = measurement(backend="cupy", gpu_name="B", invocation=1, start=10)
    with pytest.raises(RecordError, match="gpu_name"):
        collected(tmp_path, first, other)


def test_a_gpu_job_and_a_cpu_job_of_one_machine_belong_together(tmp_path):
    assert (
        len(
            collected(
                tmp_path, measurement(), measurement(backend="cupy", gpu_name="A", start=10)
            ).measurements
        )
        == 2
    )


def test_identical_nodes_of_one_label_are_accepted_even_at_the_same_time(tmp_path):
    results = collected(tmp_path, measurement(), measurement(invocation=1, hostname="node2"))
    environment = tables.environment(results)
    names = environment[environment["key"] == "hostname"]
    assert sorted(names["value"]) == ["node1", "node2"]


def test_jobs_that_overlapped_on_one_host_are_refused(tmp_path):
    with pytest.raises(RecordError, match="at the same time on node1"):
        collected(tmp_path, measurement(start=0, length=5), measurement(invocation=1, start=3))


def test_no_plan_is_refused(tmp_path):
    path = write(tmp_path / "a.json", measurement())
    with pytest.raises(RecordError, match="0 records of a plan"):
        tables.collect(records.read_all([path]))


def test_written_records_are_compact_json(tmp_path):
    path = write(tmp_path / "a.json", measurement())
    assert json.loads(path.read_text())["kind"] == "measurement" and ": " not in path.read_text()[:80]
