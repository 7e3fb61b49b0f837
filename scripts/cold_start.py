"""Rule cold_start: time the first call in a fresh process, with an empty and with a warm kernel cache.

Output: one JSON record.
"""

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onehot.job import Settings
from onehot.job_log import job_log
from onehot.supervision import supervised, write_record
from onehot.variant import Variant


def main(
    variant: Variant, invocation: int, settings: Settings, study: Mapping[str, Any], record_path: Path
) -> None:
    """Write the record of one cold start."""
    outcome = supervised(lambda: _cold_start(variant, settings, study), 3 * settings.timeout_seconds)
    record = {
        "schema": 1,
        "kind": "cold_start",
        "status": outcome.status,
        "reason": outcome.reason,
        "variant": dataclasses.asdict(variant),
        "invocation": invocation,
        "study": {key: value for key, value in study.items() if key != "root"},
    }
    print(f"{outcome.status} {variant.path} {outcome.reason}", file=sys.stderr)
    write_record(record_path, {**record, **(outcome.answer or {})})


def _cold_start(variant: Variant, settings: Settings, study: Mapping[str, Any]) -> dict[str, Any]:
    """Time the fresh processes first: provenance imports the backend, which warms the file system's cache."""
    from onehot import machine
    from onehot.backends import registry as backends
    from onehot.cold_start import cold_start
    from onehot.measurement import provenance, state

    begin = machine.utc_now()
    caches = cold_start(variant, settings.seed, settings.timeout_seconds)
    end = machine.utc_now()
    backend = backends.load(variant.backend)
    known = provenance(backend, backend.set_threads(variant.threads), Path(study["root"]))
    known["after"] = state(backend)
    return {
        "status": "ok",
        "reason": "",
        "caches": caches,
        "provenance": known,
        "run": {"start_utc": begin, "end_utc": end},
    }


if __name__ == "__main__":
    snakemake: Any
    with job_log(snakemake.log[0]):
        main(
            variant=Variant(**snakemake.params.variant),
            invocation=int(snakemake.wildcards.invocation),
            settings=Settings(**snakemake.params.settings),
            study={**snakemake.params.study, "root": str(Path(snakemake.scriptdir).parent)},
            record_path=Path(snakemake.output[0]),
        )
