"""Rule witness: have one variant timed by somebody else's benchmark, in a process of its own.

Output: one JSON record; where the witness is not installed it says so.
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
    """Write what the witness of one variant's backend says."""
    outcome = supervised(lambda: _ask(variant, settings, study), settings.timeout_seconds)
    record = {
        "schema": 1,
        "kind": "witness",
        "status": outcome.status,
        "reason": outcome.reason,
        "variant": dataclasses.asdict(variant),
        "study": {key: value for key, value in study.items() if key != "root"},
    }
    print(f"{outcome.status} {variant.path} {outcome.reason}", file=sys.stderr)
    write_record(record_path, {**record, **(outcome.answer or {})})


def _ask(variant: Variant, settings: Settings, study: Mapping[str, Any]) -> dict[str, Any]:
    """Import in the witness's process alone."""
    from onehot.witness import witnessed

    return witnessed(variant, settings, study)


if __name__ == "__main__":
    snakemake: Any
    with job_log(snakemake.log[0]):
        main(
            variant=Variant(**snakemake.params.variant),
            settings=Settings(**snakemake.params.settings),
            study={**snakemake.params.study, "root": str(Path(snakemake.scriptdir).parent)},
            record_path=Path(snakemake.output[0]),
        )
