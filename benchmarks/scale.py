"""What planning, tables, figures and a single job cost, at a thousand variants and more.

python benchmarks/scale.py --sizes 1000 3000 10000 --folder FOLDER

writes FOLDER/scale.csv and prints it as Markdown. FOLDER must hold nothing else.
"""

import argparse
import csv
import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

STUDY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(STUDY / "scripts"))

from onehot import config, cost  # noqa: E402
from onehot.backends import registry as backends  # noqa: E402
from onehot.supervision import write_record  # noqa: E402
from onehot.variant import Variant  # noqa: E402

LABEL = "scale"
IMPLEMENTATIONS = ["loop_vstack", "loop_list_stack", "argmax_take", "fancy_index", "take"]
VOCABULARIES = [1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000]
SAMPLES = 50
"""Of each clock and record: half of what the full configuration allows at most."""

COLUMNS = ["what", "variants", "seconds", "peak_mb", "mb_on_disk"]


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one command took: wall seconds, and the most memory that it or a child of it held."""

    seconds: float
    peak_mb: float


def sweep(size: int) -> dict[str, Any]:
    """Return a configuration of as many variants: implementations by vocabularies by minibatches."""
    minibatches = size // (len(IMPLEMENTATIONS) * len(VOCABULARIES))
    return {
        "machine": LABEL,
        "invocations": 1,
        "geometry": ["corrected"],
        "backend": ["numpy"],
        "implementation": IMPLEMENTATIONS,
        "minibatch": list(range(1, minibatches + 1)),
        "vocabulary": VOCABULARIES,
        "headline": None,
        "limits": None,
        "cold_start": None,
        "trace": None,
    }


def run(command: Sequence[str], folder: Path) -> Cost:
    """Run a command to its end and return its cost.

    Raises
    ------
    RuntimeError
        It failed; its last words are in the message.
    """
    with (folder / "command.log").open("w+") as log:
        begin = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        log.seek(0)
        if status:
            raise RuntimeError(f"{' '.join(command)} failed:\n{log.read()[-3000:]}")
    return Cost(seconds, usage.ru_maxrss / 1024)


def checkout(folder: Path, configuration: dict[str, Any]) -> Path:
    """Make a folder in which the study runs with a configuration of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "config").mkdir(parents=True)
    for name in ("Snakefile", "workflow", "scripts"):
        (folder / name).symlink_to(STUDY / name)
    (folder / "config/config.yaml").write_text(json.dumps(configuration))
    return folder


def provenance() -> dict[str, Any]:
    """Return what a record of this machine holds, whole."""
    from onehot import measurement

    backend = backends.load("numpy")
    found = measurement.provenance(backend, backend.set_threads(1), STUDY)
    return {**found, "after": measurement.state(backend)}


def planned_sweep(folder: Path, configuration: dict[str, Any], known: dict[str, Any]) -> list[Variant]:
    """Write what probing and planning leave behind, and return the variants."""
    records = folder / f"results/{LABEL}/records"
    study = config.load(configuration)
    variants = config.variants(study)
    backend = {"schema": 1, "kind": "backend", "backend": "numpy", "status": "ok", "reason": ""}
    write_record(records / "backends/numpy.json", {**backend, "provenance": known})
    lines = [{"variant": dataclasses.asdict(one), "status": "planned", "reason": ""} for one in variants]
    plan = {"schema": 1, "kind": "plan", "machine": LABEL, "variants": lines}
    write_record(records / "plan.json", plan)
    whole = {"schema": 1, "kind": "configuration", "machine": LABEL, "hash": "", "git": {}}
    write_record(records / "configuration.json", {**whole, "configuration": study.model_dump(mode="json")})
    return variants


def synthetic_records(
    variants: Sequence[Variant], known: dict[str, Any]
) -> Iterator[tuple[Variant, dict[str, Any]]]:
    """Yield a whole record of each variant, as large as a real one; times grow with the minibatch."""
    generator = random.Random(0)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number, variant in enumerate(variants):
        begin = start + timedelta(seconds=2 * number)
        stamps = {"start_utc": begin.isoformat(), "end_utc": (begin + timedelta(seconds=1)).isoformat()}
        seconds = [1e-6 * variant.minibatch * generator.lognormvariate(0, 0.1) for _ in range(2 * SAMPLES)]
        series = {"calls_per_sample": 1, "stopped": "maximum", "half_width": 0.01}
        yield (
            variant,
            {
                "schema": 1,
                "kind": "measurement",
                "status": "ok",
                "reason": "",
                "variant": dataclasses.asdict(variant),
                "invocation": 0,
                "study": {"code_hash": "0" * 16},
                "provenance": known,
                "clocks": {
                    "latency": {**series, "seconds": seconds[:SAMPLES]},
                    "throughput": {**series, "seconds": seconds[SAMPLES:]},
                },
                "index_sets": 4,
                "distinct_rows": [variant.minibatch] * 4,
                "run": stamps,
            },
        )


def write_records(folder: Path, variants: Sequence[Variant], known: dict[str, Any]) -> float:
    """Write every record and return their megabytes."""
    written = 0
    for variant, record in synthetic_records(variants, known):
        path = folder / f"results/{LABEL}/records/measurements/{variant.path}/invocation~0.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        written += path.write_text(json.dumps(record, separators=(",", ":")))
    return written / 1e6


def scale(size: int, folder: Path, known: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of one size: planning, then tables and figures."""
    configuration = sweep(size)
    place = checkout(folder / str(size), configuration)
    variants = planned_sweep(place, configuration, known)
    snakemake = [sys.executable, "-m", "snakemake", "--cores", "1", "--quiet", "all"]
    planning = run([*snakemake, "-n"], place)
    megabytes = write_records(place, variants, known)
    script = [sys.executable, str(Path(__file__).resolve())]
    steps = {step: run([*script, "--step", step, "--folder", str(place)], place) for step in STEPS}
    complete = run([*snakemake, "-n"], place)
    return [
        {"what": "plan, nothing measured yet", "variants": len(variants), **dataclasses.asdict(planning)},
        *(
            {"what": step, "variants": len(variants), **dataclasses.asdict(one), "mb_on_disk": megabytes}
            for step, one in steps.items()
        ),
        {"what": "plan, everything measured", "variants": len(variants), **dataclasses.asdict(complete)},
    ]


def write_tables(place: Path) -> None:
    """Write the tables of a folder's records: what the rule's script does, without Snakemake around it."""
    import tables as script
    from onehot import catalogue

    results = place / f"results/{LABEL}"
    names = [Path(name) for name in catalogue.paths(str(results / "tables"), catalogue.TABLES)]
    (results / "tables").mkdir(exist_ok=True)
    script.main(sorted((results / "records").rglob("*.json")), names)


def draw_figures(place: Path) -> None:
    """Draw the figures of a folder's tables, as ``write_tables``."""
    import inspect

    import figures as script
    from onehot import catalogue

    results = place / f"results/{LABEL}"
    names = [Path(name) for name in catalogue.paths(str(results / "figures"), catalogue.FIGURES)]
    (results / "figures").mkdir(exist_ok=True)
    known = {
        "tables": results / "tables",
        "plan": results / "records/plan.json",
        "configuration": results / "records/configuration.json",
        "machine": LABEL,
        "figure_paths": names,
    }
    asked = inspect.signature(script.main).parameters
    script.main(**{name: known[name] for name in asked})


STEPS = {"tables": write_tables, "figures": draw_figures}


def job_costs(folder: Path, backend: str) -> list[dict[str, Any]]:
    """Return what a job costs beyond its measuring, from the stamps of jobs that followed one another."""
    configuration = {
        **sweep(50), "backend": [backend], "vocabulary": [1000], "minibatch": [16, 64], "invocations": 2,
        "sampling": {"budget_seconds": 0.4},
    }  # fmt: skip
    place = checkout(folder / f"jobs-{backend}", configuration)
    run([sys.executable, "-m", "snakemake", "--cores", "1", "--quiet", "all"], place)
    return costs_of(place / f"results/{LABEL}/records", backend)


def costs_of(records: Path, backend: str) -> list[dict[str, Any]]:
    """Return what the jobs of one backend cost beyond their measuring, from the records of a study."""
    timed, imports, unsampled = [], [], []
    for path in (records / "measurements").rglob("*.json"):
        record = json.loads(path.read_text())
        if record["status"] != "ok":
            continue
        begin, end = (cost.epoch_seconds(record["run"][name]) for name in ("start_utc", "end_utc"))
        timed.append(cost.Timed(Variant(**record["variant"]), record["invocation"], begin, end))
        if record["variant"]["backend"] == backend:
            imports.append(record["start_up"]["import_seconds"] + record["start_up"]["context_seconds"])
            unsampled.append(end - begin - sampled_seconds(record))
    if not imports:
        return []
    gaps = median(gap for one, gap in cost.start_ups(timed) if one.variant.backend == backend)
    found = {
        f"a {backend} job beyond its sampling": gaps + median(unsampled),
        "of it, from one job's end to the next one's start": gaps,
        "of that, imports and context": median(imports),
        "of it, inputs, check, warm-up, provenance": median(unsampled),
    }
    return [{"what": what, "variants": len(imports), "seconds": seconds} for what, seconds in found.items()]


def sampled_seconds(record: dict[str, Any]) -> float:
    """Return the measuring window proper: every call of every sample of every clock."""
    return sum(sum(one["seconds"]) * one["calls_per_sample"] for one in record["clocks"].values())


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table for the README."""
    head = "| what | variants | seconds | peak MB | MB on disk |\n|---|---:|---:|---:|---:|"
    lines = [
        f"| {row['what']} | {row['variants']} | {row['seconds']:.2f} | {_number(row.get('peak_mb'))} "
        f"| {_number(row.get('mb_on_disk'))} |"
        for row in rows
    ]
    return "\n".join([head, *lines])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def main() -> None:
    """Measure every size and the cost of a job, and say so."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 3000, 10_000])
    parser.add_argument("--folder", type=Path, default=Path("scale"))
    parser.add_argument("--backends", nargs="*", default=["numpy", "cupy"])
    parser.add_argument("--records", type=Path, help="only say what a job cost, from a study's records")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        STEPS[arguments.step](arguments.folder)
        return
    if arguments.records:
        rows = [row for backend in arguments.backends for row in costs_of(arguments.records, backend)]
        print(markdown(rows))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    folder = arguments.folder.resolve()
    known = provenance()
    rows = [row for backend in arguments.backends for row in job_costs(folder, backend)]
    for size in arguments.sizes:
        rows += scale(size, folder, known)
    with (folder / "scale.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    print(markdown(rows))


if __name__ == "__main__":
    main()
