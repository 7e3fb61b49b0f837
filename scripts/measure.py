"""Rule measure: time one invocation of one variant and write its record.

A supervisor takes the machine's lock and forks the measuring process, so a variant that crashes, is killed
or never ends still has a record that says so. Later invocations learn from invocation 0: a variant that it
found too slow or too large is not tried again, and one that it measured is not probed again.

Arguments: the job as JSON, the record to write, the log. Reads the record of invocation 0, for the later
ones, where it is there already.
"""

import dataclasses
import json
import statistics
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
    earlier = _earlier(first, settings, study)
    if earlier is not None and earlier["status"] == "skipped":
        record = _given_up(earlier, variant, invocation, study)
    else:
        known = _known_seconds(earlier)
        outcome = supervised(
            lambda: _measure(variant, invocation, settings, study, known), settings.timeout_seconds
        )
        record = outcome.answer or {
            **blank_record(variant, invocation, study),
            "status": outcome.status,
            "reason": outcome.reason,
        }
    print(f"{record['status']} {variant.path} {record['reason']}", file=sys.stderr)
    write_record(record_path, record)


def _measure(
    variant: Variant, invocation: int, settings: Settings, study: Mapping[str, Any], known: float | None
) -> dict[str, Any]:
    """Import in the measuring process alone.

    Its start-up is part of the record, and the supervisor stays small.
    """
    started = time.perf_counter()
    from onehot.measurement import measure

    return measure(variant, invocation, settings, study, started, known)


def _earlier(first: Path | None, settings: Settings, study: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the record of invocation 0 where it is there, under the same settings and of the same code."""
    if first is None or not first.exists():
        return None
    earlier: dict[str, Any] = json.loads(first.read_text())
    same = earlier.get("settings") == dataclasses.asdict(settings) and earlier["study"] == _of_record(study)
    return earlier if same else None


def _given_up(
    earlier: Mapping[str, Any], variant: Variant, invocation: int, study: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the record of a variant that invocation 0 gave up."""
    kept = {
        key: earlier[key] for key in ("status", "reason", "skip", "settings", "provenance") if key in earlier
    }
    return {**blank_record(variant, invocation, study), **kept}


def _known_seconds(earlier: Mapping[str, Any] | None) -> float | None:
    """Return the median time of a call of invocation 0; None where it measured nothing."""
    if earlier is None or earlier["status"] != "ok":
        return None
    a_minibatch = statistics.median(earlier["clocks"]["throughput"]["seconds"])
    return float(a_minibatch * earlier["minibatches_per_call"])


def _of_record(study: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in study.items() if key != "root"}


if __name__ == "__main__":
    job_text, record_path, log_path = sys.argv[1:]
    with job_log(log_path):
        job = json.loads(job_text)
        main(
            variant=Variant(**job["variant"]),
            invocation=job["invocation"],
            settings=Settings(**job["settings"]),
            study={**job["study"], "root": str(Path(__file__).resolve().parents[1])},
            first=Path(job["first"]) if job["first"] else None,
            record_path=Path(record_path),
        )
