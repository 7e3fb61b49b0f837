"""The study on a scheduler: the tables of a local run, whatever becomes of a job, a node or a command."""

import csv
import re
import shutil
import time
from pathlib import Path

import pytest
from cluster import PROFILE, Slurm, Study, small, wait_for

pytestmark = pytest.mark.slurm

MEASURED = "group_measurements_cluster_numpy"
TIMES = {
    "median", "low", "high", "p5", "p95", "minimum", "samples", "outliers", "stopped", "seconds",
    "baseline_seconds", "seconds_per_minibatch", "speedup", "verdict", "value",
}  # fmt: skip
"""Columns that hold a time or follow from one."""

COMPARED = ("status", "variants", "summary", "speedup", "crossover", "headline", "cold_start", "limits")


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    """Return a table's rows without their times."""
    with (folder / f"tables/{table}.csv").open() as file:
        return [
            {key: value for key, value in row.items() if key not in TIMES} for row in csv.DictReader(file)
        ]


def running(slurm: Slurm, kind: str) -> list[str]:
    """Return the running jobs whose log lies in the folder of a rule or a group."""
    return [job for job, text in slurm.jobs().items() if "JobState=RUNNING" in text and f"/{kind}" in text]


@pytest.fixture(scope="module")
def drained(study: Study) -> list[str]:
    """Run the whole study, the node drained while its first job runs; return its jobs' states then."""
    process = study.start("cluster")
    wait_for(lambda: running(study.slurm, "rule_probe"), "no probe starts", 200)
    study.slurm.ask("scontrol", "update", f"nodename={study.slurm.node}", "state=drain", "reason=test")
    wait_for(lambda: "COMPLETED" in study.slurm.states().values(), "the running job does not end", 200)
    time.sleep(2)
    states = list(study.slurm.states().values())
    study.slurm.ask("scontrol", "update", f"nodename={study.slurm.node}", "state=resume")
    assert process.wait(timeout=600) == 0, study.said("cluster")
    return states


@pytest.fixture(scope="module")
def local(study: Study) -> Path:
    """Run the same study at home."""
    done = study.snakemake("--cores", "1", *small("local"))
    assert done.returncode == 0, done.stderr
    return study.folder / "results/local"


def test_a_drained_node_ends_its_job_and_waits(drained):
    assert drained.count("COMPLETED") == 1
    assert "RUNNING" not in drained
    assert "FAILED" not in drained


def test_tables_are_those_of_a_local_run_row_for_row(study, drained, local):
    for table in COMPARED:
        assert rows(study.folder / "results/cluster", table) == rows(local, table), table


def test_jobs_on_a_gpu_ask_for_one_and_others_do_not(study, drained):
    asked = {
        "/rule_probe/cupy/": ("gpu", "gres:gpu:1"),
        "/rule_probe/numpy/": ("cpu", None),
        f"/{MEASURED}_0": ("cpu", None),
        "/rule_tables/": ("cpu", None),
    }
    jobs = list(study.slurm.jobs().values())
    for folder, (partition, gres) in asked.items():
        text = next(job for job in jobs if folder in job)
        assert f"Partition={partition}\n" in re.sub(r" +AllocNode.*", "", text)
        assert (re.search(r"TresPerJob=(\S+)", text) or [None, None])[1] == gres


def test_timed_jobs_have_the_node_to_themselves_and_others_share_it(study, drained):
    for text in study.slurm.jobs().values():
        timed = "/rule_probe" in text or f"/{MEASURED}" in text
        assert ("OverSubscribe=NO" in text) == timed


def test_one_submission_carries_the_measurements_of_a_backend(study, drained):
    submitted = re.findall(
        r"submitted with SLURM jobid \d+ \(log: \S+/(\S+?)/\d+\.log", study.said("cluster")
    )
    assert submitted.count(f"{MEASURED}_0_measure") == 1


def test_killed_jobs_and_a_killed_command_lose_nothing_and_measure_nothing_twice(study, drained):
    shutil.rmtree(study.folder / "results/cluster/records/measurements")

    process = study.start("cluster")
    wait_for(lambda: study.stamps("cluster"), "nothing is measured", 200)
    jobs = running(study.slurm, MEASURED)
    study.slurm.ask("scancel", *jobs)
    assert process.wait(timeout=300) == 1
    kept = study.stamps("cluster")
    assert 1 <= len(kept) < 6
    assert study.slurm.states()[jobs[0]] == "CANCELLED"

    process = study.start("cluster")
    wait_for(lambda: len(study.stamps("cluster")) > len(kept), "nothing is measured again", 200)
    process.kill()  # it cannot even note what became of its jobs
    process.wait()
    wait_for(lambda: not running(study.slurm, MEASURED), "the submitted job does not end", 200)
    later = study.stamps("cluster")
    assert kept.items() <= later.items()

    assert study.run("cluster") == 0, study.said("cluster")
    finished = study.stamps("cluster")
    assert later.items() <= finished.items()
    assert len(finished) == 6
    assert all(finished.values())


def test_a_kind_of_node_is_asked_for_by_its_constraint_and_a_lost_node_starts_its_job_again(study):
    record = "results/kind_a/records/backends/numpy.json"
    files = ["config/smoke.yaml", "tests/slurm/small.yaml", "tests/slurm/nodes.yaml"]
    nodes = ["--snakefile", "workflow/nodes.smk", "--configfile", *files]
    process = study.start("kind_a", *nodes, "--", record)
    wait_for(lambda: running(study.slurm, "rule_kind_a_probe"), "no probe starts", 200)
    (job,) = running(study.slurm, "rule_kind_a_probe")
    study.slurm.lose_node()
    study.slurm.ask("scontrol", "update", f"jobid={job}", "starttime=now")  # Slurm would wait two minutes
    assert process.wait(timeout=400) == 0, study.said("kind_a")
    assert (study.folder / record).exists()
    asked = study.slurm.jobs()[job]
    assert "Features=kind_a " in asked
    assert "Restarts=1 " in asked
    assert study.said("kind_a").count("has been submitted") == 1


def test_a_cluster_without_a_label_is_refused(study):
    done = study.snakemake("--profile", PROFILE)
    assert done.returncode == 1
    assert "machine=LABEL" in done.stderr + done.stdout
