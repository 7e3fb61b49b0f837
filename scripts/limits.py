"""Rule limits: measure what this machine can do at best, before any variant is measured on it.

Calls, launches, waits, allocations and bytes, one backend at a time (see ``onehot.limits``): the bounds that
figures show beside every time, and the unit costs of the model. A backend that cannot run here still has a
record, with its reason; a single limit that cannot be measured keeps its place in the list, without samples
and with its reason.

Output: one JSON record.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onehot.job_log import job_log
from onehot.supervision import supervised, write_record


def main(
    backend: str, invocation: int, settings: Mapping[str, Any], study: Mapping[str, Any], record_path: Path
) -> None:
    """Write the record of one invocation of one backend's limits."""
    outcome = supervised(lambda: _measure(backend, invocation, settings, study), settings["timeout_seconds"])
    record: dict[str, Any] = {
        "schema": 1,
        "kind": "limits",
        "status": outcome.status,
        "reason": outcome.reason,
        "backend": backend,
        "invocation": invocation,
        "settings": dict(settings),
        "study": {key: value for key, value in study.items() if key != "root"},
        "limits": [],
    }
    record |= outcome.answer or {}
    print(f"{record['status']} limits of {backend} {record['reason']}", file=sys.stderr)
    for limit in record["limits"]:
        if not limit["seconds"]:
            print(f"{limit['name']}: {limit['note']}", file=sys.stderr)
    write_record(record_path, record)


def _measure(
    name: str, invocation: int, settings: Mapping[str, Any], study: Mapping[str, Any]
) -> dict[str, Any]:
    """Import in the measuring process alone: the supervisor stays small and touches no array library."""
    import dataclasses

    from onehot import machine
    from onehot.backends import registry
    from onehot.limits import LimitSettings, measure_limits
    from onehot.measurement import provenance, state

    known = LimitSettings(**settings)
    backend = registry.load(name)
    backend.probe()
    provenance_ = provenance(backend, backend.set_threads(1), Path(study["root"]))
    begin = machine.utc_now()
    # every invocation has an order of its own, as the measurements have
    limits = measure_limits(backend, dataclasses.replace(known, seed=known.seed + invocation))
    end = machine.utc_now()
    provenance_["after"] = state(backend)
    return {
        "provenance": provenance_,
        "run": {"start_utc": begin, "end_utc": end},
        "limits": [dataclasses.asdict(limit) for limit in limits],
    }


if __name__ == "__main__":
    snakemake: Any
    with job_log(snakemake.log[0]):
        main(
            backend=snakemake.params.backend,
            invocation=int(snakemake.wildcards.invocation),
            settings=snakemake.params.settings,
            study={**snakemake.params.study, "root": str(Path(snakemake.scriptdir).parent)},
            record_path=Path(snakemake.output[0]),
        )
