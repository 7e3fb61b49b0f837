"""Rule configuration: write down the whole configuration of a run, and its hash, beside the records.

Output: one JSON document, which tables read their statistics from.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onehot import machine
from onehot.job_log import job_log
from onehot.supervision import write_record


def main(label: str, configuration: Mapping[str, Any], root: Path, record_path: Path) -> None:
    """Write the record of the configuration."""
    text = json.dumps(configuration, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    record = {
        "schema": 1,
        "kind": "configuration",
        "machine": label,
        "configuration": configuration,
        "hash": digest,
    }
    write_record(record_path, {**record, "git": machine.study(root)})


if __name__ == "__main__":
    snakemake: Any
    with job_log(snakemake.log[0]):
        main(
            label=snakemake.params.machine,
            configuration=snakemake.params.configuration,
            root=Path(snakemake.scriptdir).parent,
            record_path=Path(snakemake.output[0]),
        )
