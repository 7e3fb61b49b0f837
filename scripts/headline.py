"""Rule headline: run all minibatches of the question's run for real, on one backend with one implementation.

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
    variant: Variant, minibatches: int, settings: Settings, study: Mapping[str, Any], record_path: Path
) -> None:
    """Write the record of one full run."""
    outcome = supervised(lambda: _full_run(variant, minibatches, settings, study), settings.timeout_seconds)
    record = {
        "schema": 1,
        "kind": "headline",
        "status": outcome.status,
        "reason": outcome.reason,
        "variant": dataclasses.asdict(variant),
        "minibatches": minibatches,
        "study": {key: value for key, value in study.items() if key != "root"},
    }
    print(f"{outcome.status} {variant.path} {outcome.reason}", file=sys.stderr)
    write_record(record_path, {**record, **(outcome.answer or {})})


def _full_run(
    variant: Variant, minibatches: int, settings: Settings, study: Mapping[str, Any]
) -> dict[str, Any]:
    from onehot.headline import full_run

    return full_run(variant, minibatches, settings, study)


if __name__ == "__main__":
    snakemake: Any
    with job_log(snakemake.log[0]):
        main(
            variant=Variant(**snakemake.params.variant),
            minibatches=snakemake.params.minibatches,
            settings=Settings(**snakemake.params.settings),
            study={**snakemake.params.study, "root": str(Path(snakemake.scriptdir).parent)},
            record_path=Path(snakemake.output[0]),
        )
