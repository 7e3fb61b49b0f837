"""Rule compare: put several machines' results side by side; their records are read strictly and never mixed.

Input: the records of each machine. Output: tables with a column, or a line, for each machine, and a figure.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from onehot import comparison, comparison_figures, records, tables, theme
from onehot.job_log import job_log


def main(folders: Mapping[str, Sequence[Path]], tables_folder: Path, figure_paths: Iterable[Path]) -> None:
    """Write every comparison; the first machine is what the others are compared with."""
    results = {label: tables.collect(records.read_all(paths)) for label, paths in folders.items()}
    machines = comparison.machines(results)
    summaries = {label: tables.summary(one, one.samples()) for label, one in results.items()}
    speedup = comparison.speedup(results, next(iter(results)))
    frames = {"machines": machines, "summary": comparison.summary(summaries), "speedup": speedup}
    for name, frame in frames.items():
        path = tables_folder / f"{name}.csv"
        frame.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
    drawn = comparison_figures.speedup(speedup)
    for path in figure_paths:
        theme.save(drawn, path)


if __name__ == "__main__":
    snakemake: Any
    with job_log(snakemake.log[0]):
        found = snakemake.params.records
        main(
            folders={label: [Path(path) for path in paths] for label, paths in found.items()},
            tables_folder=Path(snakemake.output.tables[0]).parent,
            figure_paths=[Path(path) for path in snakemake.output.figures],
        )
