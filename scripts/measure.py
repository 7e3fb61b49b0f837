"""Rule measure: time one invocation of one variant and write its record.

A supervisor takes the machine's lock and forks the measuring process, so a variant that crashes, is killed
or never ends still has a record that says so. Later invocations of a variant that invocation 0 found too
slow or too large are not tried again.

Reads the record of invocation 0, for the later ones, where it is there already. Output: one JSON record.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onehot.job import Settings, blank_record
from onehot.job_log import job_log
from onehot.supervision import supervised, write_record
from onehot.variant import Variant


def main(
    variant: Variant,
    invocation: int,
    settings: Settings,
    study: Mapping[str, Any],
    first: Path | None,
    record_path: Path,
) -> None:
    """Write the record of one invocation of one variant."""
    record = _given_up(first, variant, invocation, settings, study)
    if record is None:
        outcome = supervised(lambda: _measure(variant, invocation, settings, study), settings.timeout_seconds)
        record = outcome.answer or {
            **blank_record(variant, invocation, study),
            "status": outcome.status,
            "reason": outcome.reason,
        }
    print(f"{record['status']} {variant.path} {record['reason']}", file=sys.stderr)
    write_record(record_path, record)


def _measure(
    variant: Variant, invocation: int, settings: Settings, study: Mapping[str, Any]
) -> dict[str, Any]:
    """Import in the measuring process alone.

    Its start-up is part of the record, and the supervisor stays small.
    """
    started = time.perf_counter()
    from onehot.measurement import measure

    return measure(variant, invocation, settings, study, started)


def _given_up(
    first: Path | None, variant: Variant, invocation: int, settings: Settings, study: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the record of a variant that invocation 0 gave up under the same settings and code.

    None for all others.
    """
    if first is None or not first.exists():
        return None
    earlier = json.loads(first.read_text())
    same = earlier.get("settings") == dataclasses.asdict(settings) and earlier["study"] == _of_record(study)
    if earlier["status"] != "skipped" or not same:
        return None
    kept = {
        key: earlier[key] for key in ("status", "reason", "skip", "settings", "provenance") if key in earlier
    }
    return {**blank_record(variant, invocation, study), **kept}


def _of_record(study: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in study.items() if key != "root"}


if __name__ == "__main__":
    snakemake: Any
    with job_log(snakemake.log[0]):
        main(
            variant=Variant(**snakemake.params.variant),
            invocation=int(snakemake.wildcards.invocation),
            settings=Settings(**snakemake.params.settings),
            study={**snakemake.params.study, "root": str(Path(snakemake.scriptdir).parent)},
            first=Path(snakemake.params.first) if snakemake.params.first else None,
            record_path=Path(snakemake.output[0]),
        )
