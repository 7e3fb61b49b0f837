"""Snakemake for real, on a sweep of seconds.

What a run leaves behind, what is measured again, what survives a kill.
"""

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.workflow

ROOT = Path(__file__).parents[2]
TINY = """
machine: tiny
backend: [numpy]
invocations: 2
implementation: [published_loop, loop_vstack, fancy_index, take]
minibatch: [8]
vocabulary: [100]
embedding: [12]
threads: [1]
index_sets: 2
sampling: {budget_seconds: 0.02, warmup_seconds: 0.002}
headline: {implementation: [fancy_index], minibatch: 8, minibatches: 5}
limits: null
cold_start: null
"""


class Study:
    """A copy of the workflow in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("Snakefile", "workflow", "scripts", "config"):
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / name)
        (folder / "config" / "tiny.yaml").write_text(TINY)

    def command(self, *arguments: str, cores: int = 1) -> list[str]:
        # --configfile takes every word after it: a target that follows would be read as one more file.
        base = [sys.executable, "-m", "snakemake", "--cores", str(cores)]
        return [*base, *arguments, "--configfile", "config/tiny.yaml"]

    def run(self, *arguments: str, cores: int = 1) -> subprocess.CompletedProcess[str]:
        command = self.command(*arguments, cores=cores)
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300)
        done.stdout += done.stderr
        return done

    def would_run(self, *arguments: str) -> dict[str, int]:
        """Jobs a rule that a dry run names."""
        done = self.run("-n", *arguments)
        assert done.returncode == 0, done.stdout
        table = done.stdout.rsplit("Job stats:", 1)
        if len(table) == 1:
            return {}
        rows = [line.split() for line in table[1].splitlines()]
        return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}

    @property
    def results(self) -> Path:
        return self.folder / "results" / "tiny"

    def stamps(self) -> dict[str, str]:
        """Start of each measurement by its path: a measurement made again starts anew."""
        found = (self.results / "records" / "measurements").rglob("*.json")
        return {str(path): json.loads(path.read_text())["run"]["start_utc"] for path in found}

    def table(self, name: str) -> list[dict[str, str]]:
        with (self.results / "tables" / f"{name}.csv").open() as file:
            return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One finished study; tests that change it work on a copy."""
    study = Study(tmp_path_factory.mktemp("study"))
    done = study.run()
    assert done.returncode == 0, done.stdout
    return study


@pytest.fixture
def study(finished, tmp_path):
    """A copy of the finished study, time stamps and Snakemake's notes included."""
    shutil.copytree(finished.folder, tmp_path / "copy", symlinks=True)
    copy = Study.__new__(Study)
    copy.folder = tmp_path / "copy"
    return copy


def test_a_study_leaves_a_record_an_invocation_and_every_table_and_figure(finished):
    from onehot import catalogue

    assert len(finished.stamps()) == 8
    assert {row["status"] for row in finished.table("status")} == {"ok"}
    expected = catalogue.paths(str(finished.results / "tables"), catalogue.TABLES)
    expected += catalogue.paths(str(finished.results / "figures"), catalogue.FIGURES)
    assert [path for path in expected if not Path(path).stat().st_size] == []


def test_timed_jobs_ran_in_the_shuffled_order_invocation_by_invocation(finished):
    ordered = sorted(finished.stamps().items(), key=lambda pair: pair[1])
    assert [path.rsplit("~", 1)[1] for path, _ in ordered] == ["0.json"] * 4 + ["1.json"] * 4


def test_a_finished_study_has_nothing_to_do(finished):
    assert finished.would_run() == {}


def test_a_deleted_record_is_measured_again_and_no_other(study):
    before = study.stamps()
    lost = sorted(before)[3]
    Path(lost).unlink()
    assert study.run().returncode == 0
    after = study.stamps()
    assert [path for path in before if before[path] != after[path]] == [lost]


def test_an_edited_implementation_is_measured_again_and_no_other(study):
    with (study.folder / "scripts/onehot/implementations/gather.py").open("a") as file:
        file.write("\n# edited\n")
    jobs = study.would_run()
    assert (jobs["measure"], jobs["headline"]) == (4, 1)


def test_a_configuration_value_that_measuring_reads_measures_all_again(study):
    assert study.would_run("--config", "sampling={'target': 0.1}")["measure"] == 8


def test_a_configuration_value_that_only_statistics_read_measures_nothing_again(study):
    jobs = study.would_run("--config", "statistics={'level': 0.9}")
    assert set(jobs) == {"configuration", "tables", "figures", "study", "total"}


def test_another_minibatch_measures_only_what_is_new(study):
    done = study.run("--config", "minibatch=[8,9]")
    assert done.returncode == 0, done.stdout
    assert len(study.stamps()) == 16
    fresh = [path for path in study.stamps() if "minibatch~9" in path]
    assert len(fresh) == 8


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("minibach=[1]", "minibach: unknown key; did you mean 'minibatch'?"),
        ("minibatch=64,128", "write KEY='[64,128]'"),
        ("machine=reference", "'reference' is where committed results lie"),
    ],
)
def test_a_bad_configuration_on_the_command_line_is_refused_at_start(finished, argument, words):
    done = finished.run("-n", "--config", argument)
    assert done.returncode != 0 and words in done.stdout


def test_a_killed_snakemake_is_carried_on_by_the_next_run_and_nothing_is_measured_twice(tmp_path):
    study = Study(tmp_path)
    process = subprocess.Popen(
        study.command(), cwd=study.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while len(study.stamps()) < 3:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = study.stamps()
    done = study.run("--rerun-incomplete")
    assert done.returncode == 0, done.stdout
    after = study.stamps()
    assert len(after) == 8
    again = [path for path in before if before[path] != after[path]]
    assert len(again) <= 1  # the one that was being written when the kill came


def test_what_crashes_or_lies_is_a_row_of_the_status_table_and_stops_nothing(tmp_path):
    study = Study(tmp_path)
    with (study.folder / "scripts/onehot/implementations/gather.py").open("a") as file:
        file.write(PLANTED)
    names = "implementation=[fancy_index,dies,lies]"
    done = study.run("--config", names)
    assert done.returncode == 0, done.stdout
    status = {row["implementation"]: row for row in study.table("status")}
    assert status["fancy_index"]["status"] == "ok"
    assert status["dies"]["status"] == "failed" and "SIGKILL" in status["dies"]["reason"]
    assert status["lies"]["status"] == "failed" and "is wrong in" in status["lies"]["reason"]
    assert {row["implementation"] for row in study.table("summary")} == {"fancy_index"}


PLANTED = '''

@implementation(geometry=CORRECTED, reads=INDICES, backends=("numpy",))
def dies(xp, W0, J):
    """Is killed, as a process that takes too much memory is."""
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)


@implementation(geometry=CORRECTED, reads=INDICES, backends=("numpy",))
def lies(xp, W0, J):
    """Gives the neighbour's row."""
    return W0[J - 1]
'''


def test_timed_jobs_never_overlap_whatever_the_cores(tmp_path):
    """Tables refuse records whose time stamps overlap, so a finished run proves that none did."""
    study = Study(tmp_path)
    done = study.run(cores=4)
    assert done.returncode == 0, done.stdout
    assert len(study.stamps()) == 8


def test_a_truncated_record_stops_the_tables_by_name(study):
    path = Path(sorted(study.stamps())[0])
    path.write_text(path.read_text()[:100])
    done = study.run("results/tiny/tables/summary.csv")
    assert done.returncode != 0
    log = (study.results / "logs" / "tables.log").read_text()
    assert path.name in log and "is no record of this study" in log


def test_committed_records_are_drawn_and_never_measured_in_any_order_of_time_stamps(finished, tmp_path):
    study = Study(tmp_path)
    shutil.copytree(finished.results / "records", tmp_path / "results/reference/elsewhere/records")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    random.Random(1).shuffle(files)
    for age, path in enumerate(files):
        os.utime(path, (1.6e9 + age, 1.6e9 + age))
    jobs = study.would_run("reference")
    assert set(jobs) <= {"tables", "figures", "reference", "total"} and jobs["tables"] == 1
    assert study.run("reference").returncode == 0
    drawn = tmp_path / "results/reference/elsewhere"
    for name in ("summary.csv", "headline.md", "speedup.tex"):
        assert (drawn / "tables" / name).read_bytes() == (finished.results / "tables" / name).read_bytes()
