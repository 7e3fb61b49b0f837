"""Rule tables: read every record of one machine strictly and write all tables.

Input: the records. Output: each table as CSV, and the ones for readers as Markdown, LaTeX and HTML too.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from onehot import advice, explanation_presentation, presentation, records, tables
from onehot.job_log import job_log

assert explanation_presentation.PRESENTED is presentation.PRESENTED  # importing it has registered its tables


def main(record_paths: Iterable[Path], table_paths: Iterable[Path]) -> None:
    """Write every table; the file's stem names the table, its ending the format."""
    results = tables.collect(records.read_all(record_paths))
    frames = advice.everything(results)
    for path in table_paths:
        presentation.write(frames[path.stem], path.stem, path)


if __name__ == "__main__":
    snakemake: Any
    with job_log(snakemake.log[0]):
        main([Path(path) for path in snakemake.input.records], [Path(path) for path in snakemake.output])
