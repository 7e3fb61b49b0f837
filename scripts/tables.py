"""Rule tables: read every record of one machine strictly and write all tables.

One process reads and computes; its forks share the writing, which takes half of the time.

Input: the records. Output: each table as CSV, and the ones for readers as Markdown, LaTeX and HTML too.
"""

import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
from onehot import advice, explanation_presentation, presentation, records, tables
from onehot.job_log import job_log

assert explanation_presentation.PRESENTED is presentation.PRESENTED  # importing it has registered its tables


def main(record_paths: Iterable[Path], table_paths: Iterable[Path]) -> None:
    """Write every table; the file's stem names the table, its ending the format."""
    frames = advice.everything(tables.collect(records.read_all(record_paths)))
    by_name: dict[str, list[Path]] = {}
    for path in table_paths:
        by_name.setdefault(path.stem, []).append(path)
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(min(cores, len(by_name)), multiprocessing.get_context("fork")) as pool:
        waiting = [pool.submit(_write, frames[name], name, paths) for name, paths in by_name.items()]
        for one in waiting:
            one.result()


def _write(frame: pd.DataFrame, name: str, paths: Iterable[Path]) -> None:
    for path in paths:
        presentation.write(frame, name, path)


if __name__ == "__main__":
    snakemake: Any
    with job_log(snakemake.log[0]):
        main([Path(path) for path in snakemake.input.records], [Path(path) for path in snakemake.output])
