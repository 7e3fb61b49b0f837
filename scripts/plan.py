"""Checkpoint plan.

Every variant of the sweep, to be measured or with the reason why it cannot be, on this machine.

Input: the record of each backend's probe. Output: one JSON document.
"""

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from onehot import config
from onehot.job_log import job_log
from onehot.supervision import write_record


def main(machine: str, factors: Mapping[str, Any], probes: Iterable[Path], plan_path: Path) -> None:
    """Write the plan."""
    variants = config.variants(config.load(factors))
    records = [json.loads(path.read_text()) for path in probes]
    reasons = {record["backend"]: record["reason"] for record in records if record["status"] != "ok"}
    planned = [
        {
            "variant": dataclasses.asdict(variant),
            "status": "skipped" if variant.backend in reasons else "planned",
            "reason": reasons.get(variant.backend, ""),
        }
        for variant in variants
    ]
    for backend, reason in reasons.items():
        print(f"backend {backend} is not measured: {reason}", file=sys.stderr)
    plan = {
        "schema": 1,
        "kind": "plan",
        "machine": machine,
        "variants": planned,
    }
    write_record(plan_path, plan)


if __name__ == "__main__":
    snakemake: Any
    with job_log(snakemake.log[0]):
        main(
            machine=snakemake.params.machine,
            factors=snakemake.params.factors,
            probes=[Path(path) for path in snakemake.input],
            plan_path=Path(snakemake.output[0]),
        )
