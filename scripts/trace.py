"""Rule trace: count what one call of a variant asks of the machine, in a process that is never timed.

Output: one JSON record. Where CUPTI is missing the record says so and holds what the other counters saw.
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


def main(variant: Variant, settings: Settings, study: Mapping[str, Any], record_path: Path) -> None:
    """Write the ledger of one variant."""
    outcome = supervised(lambda: _trace(variant, settings, study), settings.timeout_seconds)
    record = {
        "schema": 1,
        "kind": "ledger",
        "status": outcome.status,
        "reason": outcome.reason,
        "variant": dataclasses.asdict(variant),
        "study": {key: value for key, value in study.items() if key != "root"},
    }
    print(f"{outcome.status} {variant.path} {outcome.reason}", file=sys.stderr)
    write_record(record_path, {**record, **(outcome.answer or {})})


def _trace(variant: Variant, settings: Settings, study: Mapping[str, Any]) -> dict[str, Any]:
    """Import in the traced process alone: CUPTI is switched on before any library starts CUDA."""
    from onehot.ledger import trace

    return trace(variant, settings, study)


if __name__ == "__main__":
    snakemake: Any
    with job_log(snakemake.log[0]):
        main(
            variant=Variant(**snakemake.params.variant),
            settings=Settings(**snakemake.params.settings),
            study={**snakemake.params.study, "root": str(Path(snakemake.scriptdir).parent)},
            record_path=Path(snakemake.output[0]),
        )
