"""Rule figures: draw every figure of one machine from its tables.

One process imports the plotting libraries, which takes longer than a figure, and its forks share the drawing.

Input: the tables as CSV, and the configuration, which knows the coverage of their intervals.
Output: each figure as SVG, PDF and PNG, the same bytes for the same tables.
"""

import json
import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from onehot import explanation_figures, figures, frames, theme  # noqa: F401  (importing registers figures)
from onehot.job_log import job_log


def main(tables: Path, configuration: Path, machine: str, figure_paths: Iterable[Path]) -> None:
    """Draw every figure; the file's stem names the figure, its ending the format."""
    level = json.loads(configuration.read_text())["configuration"]["statistics"]["level"]
    known = frames.load(tables, machine, level)
    by_name: dict[str, list[Path]] = {}
    for path in figure_paths:
        by_name.setdefault(path.stem, []).append(path)
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(min(cores, len(by_name)), multiprocessing.get_context("fork")) as pool:
        waiting = [pool.submit(_draw, known, name, paths) for name, paths in by_name.items()]
        for one in waiting:
            one.result()


def _draw(known: frames.Frames, name: str, paths: Iterable[Path]) -> None:
    drawn = figures.FIGURES[name](known)
    for path in paths:
        theme.save(drawn, path)


if __name__ == "__main__":
    snakemake: Any
    with job_log(snakemake.log[0]):
        main(
            tables=Path(snakemake.params.tables),
            configuration=Path(snakemake.input.configuration),
            machine=snakemake.params.machine,
            figure_paths=[Path(path) for path in snakemake.output],
        )
