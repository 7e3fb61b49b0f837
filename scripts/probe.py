"""Rule probe.

Find out whether one backend runs on this machine, by running one kernel; an unavailable one costs one job.

Output: one JSON record with the reason where it does not run.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onehot.job_log import job_log
from onehot.supervision import supervised, write_record


def main(backend: str, study: Mapping[str, Any], timeout_seconds: float, record_path: Path) -> None:
    """Write the record of one backend's probe."""
    outcome = supervised(lambda: _probe(backend, study), timeout_seconds)
    record = {
        "schema": 1,
        "kind": "backend",
        "backend": backend,
        "status": outcome.status,
        "reason": outcome.reason,
    }
    print(f"{backend}: {outcome.status} {outcome.reason}", file=sys.stderr)
    write_record(record_path, {**record, **(outcome.answer or {})})


def _probe(backend: str, study: Mapping[str, Any]) -> dict[str, Any]:
    from onehot.probing import probe

    return probe(backend, study)


if __name__ == "__main__":
    snakemake: Any
    with job_log(snakemake.log[0]):
        main(
            backend=snakemake.wildcards.backend,
            study={**snakemake.params.study, "root": str(Path(snakemake.scriptdir).parent)},
            timeout_seconds=snakemake.params.timeout_seconds,
            record_path=Path(snakemake.output[0]),
        )
