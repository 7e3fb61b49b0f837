"""A one-node Slurm on the loopback, from Debian's packages, stopped by the ids of its processes."""

import contextlib
import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

PROFILE = "workflow/profiles/slurm"
NEEDED = {"munged": "munge", "slurmctld": "slurm-wlm", "slurmd": "slurm-wlm", "sbatch": "slurm-wlm"}
STARTUP_SECONDS = 30
SEARCHED = f"{os.environ['PATH']}:/usr/sbin"
"""Daemons lie where a user does not always look."""

CPUS = 2

CONFIGURATION = """\
ClusterName=study
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MailProg=/bin/true
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ReturnToService=2
MinJobAge=3600
KillWait=2
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=4000 Gres=gpu:1 Feature=kind_a,kind_b State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes={host} MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Slurm:
    """A running scheduler: where its configuration lies and what its clients need in their environment."""

    folder: Path
    node: str
    environment: Mapping[str, str]

    def ask(self, *command: str) -> str:
        """Run one of Slurm's commands and return what it prints."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def states(self) -> dict[str, str]:
        """Return the state of every job by its id."""
        lines = self.ask("squeue", "--states=all", "--noheader", "--format=%i %T").splitlines()
        return dict(line.split() for line in lines)

    def jobs(self) -> dict[str, str]:
        """Return what ``scontrol show job`` says of every job, by its id."""
        text = self.ask("scontrol", "show", "job")
        return {part.split()[0]: part for part in text.split("JobId=")[1:]}

    def lose_node(self) -> None:
        """Let the node be gone for a moment, with what runs on it."""
        self.ask("scontrol", "update", f"nodename={self.node}", "state=down", "reason=test")
        time.sleep(2)
        if "idle" not in self.ask("sinfo", "-h", "-o", "%T"):
            self.ask("scontrol", "update", f"nodename={self.node}", "state=idle")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _write_configuration(folder: Path, node: str) -> None:
    for name in ("munge", "state", "spool", "log", "bin", "tmp", "bytecode"):
        (folder / name).mkdir(mode=0o755)
    values = {"folder": folder, "host": node, "user": getpass.getuser(), "cpus": CPUS}
    ports = {"controller_port": _free_port(), "node_port": _free_port()}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(**values, **ports))
    # A generic resource needs a file that exists, not a GPU.
    (folder / "gres.conf").write_text(f"NodeName={node} Name=gpu File=/dev/null\n")
    key = folder / "munge/munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    # The job step plugin drops SLURM_CONF before it calls srun: a real cluster has its configuration in /etc.
    wrapper = folder / "bin/srun"
    wrapper.write_text(
        f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun", path=SEARCHED)} "$@"\n'
    )
    wrapper.chmod(0o755)


def _environment(folder: Path) -> dict[str, str]:
    """What clients and jobs need; the temporary folder keeps their machine lock apart from other studies'."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    path = f"{folder}/bin:{Path(sys.executable).parent}:{SEARCHED}"
    return {
        **kept,
        "PATH": path,
        "SLURM_CONF": f"{folder}/slurm.conf",
        "TMPDIR": f"{folder}/tmp",
        # Three Snakemakes start for each job: compiled modules make them three times as fast.
        "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
    }


def _start(folder: Path, slurm: Slurm, daemons: list[subprocess.Popen[bytes]]) -> None:
    munge = folder / "munge"
    commands = [
        ["munged", "--foreground", "--force", f"--key-file={munge}/munge.key",
         f"--socket={munge}/munge.socket", f"--pid-file={munge}/munged.pid",
         f"--log-file={munge}/munged.log", f"--seed-file={munge}/munged.seed"],
        ["slurmctld", "-D", "-c", "-f", f"{folder}/slurm.conf"],
        ["slurmd", "-D", "-c", "-f", f"{folder}/slurm.conf", "-N", slurm.node],
    ]  # fmt: skip
    for command in commands:
        with (folder / f"log/{command[0]}.out").open("wb") as log:
            daemons.append(subprocess.Popen(command, env=slurm.environment, stdout=log, stderr=log))
        if command[0] == "munged":
            wait_for((munge / "munge.socket").exists, "munged opens no socket")
    wait_for(lambda: _idle(slurm), f"no idle node; see {folder}/log")


def _idle(slurm: Slurm) -> bool:
    """Return whether the node waits for work; the controller answers nothing until it is up."""
    done = subprocess.run(["sinfo", "-h", "-o", "%T"], env=slurm.environment, capture_output=True, text=True)
    return set(done.stdout.split()) == {"idle"}


def wait_for(condition: Callable[[], object], complaint: str, seconds: float = STARTUP_SECONDS) -> None:
    """Look again and again until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.1)


def missing_packages() -> list[str]:
    """Return the distribution's packages whose commands are not here."""
    return sorted(
        {package for command, package in NEEDED.items() if not shutil.which(command, path=SEARCHED)}
    )


@contextlib.contextmanager
def started() -> Iterator[Slurm]:
    """Run a scheduler, and end what it runs and then itself."""
    # Munge refuses folders that others may not enter, as those of pytest are.
    folder = Path(tempfile.mkdtemp(prefix="study-slurm-"))
    folder.chmod(0o755)
    node = socket.gethostname().split(".")[0]
    _write_configuration(folder, node)
    slurm = Slurm(folder, node, _environment(folder))
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        _start(folder, slurm, daemons)
        yield slurm
    finally:
        _stop(slurm, daemons)
        shutil.rmtree(folder, ignore_errors=True)


def _stop(slurm: Slurm, daemons: list[subprocess.Popen[bytes]]) -> None:
    user = getpass.getuser()
    subprocess.run(["scancel", "--quiet", "--full", f"--user={user}"], env=slurm.environment, timeout=30)
    with contextlib.suppress(AssertionError):
        wait_for(lambda: not slurm.ask("squeue", "--noheader"), "jobs are left", 10)
    for daemon in reversed(daemons):
        daemon.terminate()
        try:
            daemon.wait(timeout=10)
        except subprocess.TimeoutExpired:
            daemon.kill()


@dataclass(frozen=True)
class Study:
    """A checkout of its own in which to run the study on the scheduler."""

    folder: Path
    slurm: Slurm
    commands: list[subprocess.Popen[str]] = field(default_factory=list)

    def end(self) -> None:
        """End the commands that a failed test left behind."""
        for command in self.commands:
            if command.poll() is None:
                command.kill()
                command.wait()

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake to its end."""
        command = ["snakemake", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.slurm.environment, capture_output=True, text=True
        )

    def quick(self) -> list[str]:
        """Return the options that fit the profile to one small node without accounting."""
        polling = ["--slurm-init-seconds-before-status-checks", "3", "--latency-wait", "15"]
        return ["--slurm-status-command", "squeue", *polling, "--default-resources", *self.resources()]

    def resources(self) -> list[str]:
        """Return the profile's requests, cut down to this one node."""
        asked = yaml.safe_load((self.folder / PROFILE / "config.yaml").read_text())["default-resources"]
        asked |= {"mem_mb": 1000, "cpus_per_task": f"{CPUS} if wildcards.get('backend') else 1"}
        return [f"{name}={value}" for name, value in asked.items()]

    def start(self, label: str, *arguments: str) -> subprocess.Popen[str]:
        """Start the study and return at once."""
        with (self.folder / f"{label}.log").open("a") as log:
            environment = self.slurm.environment
            command = ["snakemake", "--profile", PROFILE, *self.quick(), *small(label), *arguments]
            started = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, text=True
            )
        self.commands.append(started)
        return started

    def run(self, label: str, *arguments: str, seconds: float = 500) -> int:
        """Run the study to its end and return its exit status."""
        return self.start(label, *arguments).wait(timeout=seconds)

    def said(self, label: str) -> str:
        """Return what the runs under a label printed."""
        return (self.folder / f"{label}.log").read_text()

    def stamps(self, label: str) -> dict[str, str]:
        """Return when each measurement of a label started, by its record's path."""
        records = self.folder / "results" / label / "records"
        found = {}
        for path in sorted(records.rglob("invocation~*.json")):
            run = json.loads(path.read_text()).get("run")
            found[str(path.relative_to(records))] = run["start_utc"] if run else ""
        return found


def small(label: str) -> list[str]:
    """Return the options of a study that shows every kind of job in seconds."""
    return ["--configfile", "config/smoke.yaml", "tests/slurm/small.yaml", "--config", f"machine={label}"]
