"""Rule plan: print what would be measured, what not and why, and roughly how long it takes on this machine.

Input: the sweep's plan, and whatever records are there. Output: none; the terminal shows it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onehot import config, cost
from onehot.backends import registry as backends
from onehot.variant import Variant

CodeHashes = Mapping[str, Mapping[str, str]]
"""By backend and implementation."""


def main(
    plan_path: Path,
    records: Path,
    others: Sequence[str],
    configuration: Mapping[str, Any],
    code_hashes: CodeHashes,
) -> str:
    """Return the text to print; ``others`` are the records of all but the sweep's own jobs."""
    study = config.load(configuration)
    plan = json.loads(plan_path.read_text())
    listed = [(Variant(**one["variant"]), one) for one in plan["variants"]]
    count = config.invocations(study)
    earlier, present = _earlier(records / "measurements", code_hashes)
    lines = cost.estimate(
        planned=[
            (variant, number)
            for variant, one in listed
            if one["status"] == "planned"
            for number in range(count[variant])
        ],
        present=present,
        earlier=earlier,
        budget_seconds=study.sampling.budget_seconds,
        on_device={name: backends.on_device(name) for name in backends.names()},
    )
    planned = {variant.backend for variant, one in listed if one["status"] == "planned"}
    lines += cost.others([job for job in _others(records, others) if job.backend in planned])
    left_out = cost.skipped((variant, one["reason"]) for variant, one in listed if one["status"] != "planned")
    return cost.text(plan["machine"], lines, left_out)


def _earlier(measurements: Path, code_hashes: CodeHashes) -> tuple[list[cost.Timed], list[cost.Key]]:
    """Read lengths from any record; only those of today's code are present, others are measured again."""
    timed: list[cost.Timed] = []
    present: list[cost.Key] = []
    for record in _records(measurements):
        variant, invocation = Variant(**record["variant"]), record["invocation"]
        if record["study"]["code_hash"] == code_hashes.get(variant.backend, {}).get(variant.implementation):
            present.append((variant, invocation))
        if record.get("run"):
            start, end = (cost.epoch_seconds(record["run"][name]) for name in ("start_utc", "end_utc"))
            timed.append(cost.Timed(variant, invocation, start, end))
    return timed, present


def _others(records: Path, paths: Sequence[str]) -> Iterator[cost.Other]:
    """Yield the jobs beside the sweep; the folder below the records names the kind, the next the backend."""
    for path in map(Path, paths):
        kind, backend = path.relative_to(records).parts[:2]
        seconds = None
        if path.exists() and (run := json.loads(path.read_text()).get("run")):
            seconds = cost.epoch_seconds(run["end_utc"]) - cost.epoch_seconds(run["start_utc"])
        yield cost.Other(kind, backend, path.exists(), seconds)


def _records(measurements: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(measurements.rglob("invocation~*.json")):
        yield json.loads(path.read_text())


if __name__ == "__main__":
    snakemake: Any
    text = main(
        plan_path=Path(snakemake.input[0]),
        records=Path(snakemake.params.records),
        others=list(snakemake.params.others),
        configuration=snakemake.params.configuration,
        code_hashes=snakemake.params.code_hashes,
    )
    Path(snakemake.log[0]).write_text(text + "\n")
    print(text)
