"""Several machines side by side: their records never mix, their summaries stand in columns of one table."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from onehot import clocks, statistics
from onehot.errors import StudyError
from onehot.tables import RANKED_CLOCKS, Results
from onehot.variant import COLUMNS

FACTORS = list(COLUMNS)
DEVICE_CLOCKS = (clocks.DEVICE_COLD, clocks.DEVICE_HOT)


def machines(results: Mapping[str, Results]) -> pd.DataFrame:
    """Return what each label was measured on: kind of node, how many of them took part, how many records.

    Raises
    ------
    StudyError
        Two labels hold measurements of one kind on one node: one of them says something that is not so.
    """
    rows = [_machine(label, one) for label, one in results.items()]
    _refuse_shared_nodes(rows)
    shown = [{**row, "nodes": len(row["nodes"])} for row in rows]
    return pd.DataFrame(shown, columns=["machine", "cpu", "gpu", "nodes", "records"])


def _machine(label: str, results: Results) -> dict[str, Any]:
    known = [record.provenance for record in results.measurements if record.provenance is not None]
    return {
        "machine": label,
        "cpu": " + ".join(sorted({str(one.fingerprint.get("cpu_model")) for one in known})),
        "gpu": " + ".join(sorted({str(one.gpu.get("name")) for one in known if one.gpu})),
        "nodes": sorted({str(one.host["hostname"]) for one in known}),
        "records": len(known),
    }


def _refuse_shared_nodes(rows: list[dict[str, Any]]) -> None:
    """Labels may share a node where they differ in the GPU that was used, and nowhere else."""
    owner: dict[tuple[str, str], str] = {}
    for row in rows:
        for node in row["nodes"]:
            first = owner.setdefault((node, row["gpu"]), row["machine"])
            if first != row["machine"]:
                raise StudyError(
                    f"results/{first} and results/{row['machine']} were both measured on {node}: one kind of "
                    "node has one label. Correct its constraint in nodes, and delete the folder that is wrong"
                )


def summary(summaries: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return every variant and clock with the median and interval of each machine in columns of their own."""
    keys = [*FACTORS, "clock"]
    values = ["median", "low", "high"]
    parts = [frame.set_index(keys)[values].add_suffix(f" {label}") for label, frame in summaries.items()]
    return pd.concat(parts, axis=1).sort_index().reset_index() if parts else pd.DataFrame(columns=keys)


def speedup(results: Mapping[str, Results], baseline: str) -> pd.DataFrame:
    """Return how much faster each machine is than the baseline, variant by variant, beside both times.

    The intervals resample processes first and samples within them on both sides. All cores of one machine
    (0) are compared with all cores of the other.
    """
    reference = results[baseline].samples()
    rows = []
    for label, one in results.items():
        if label == baseline:
            continue
        rule = one.rule
        samples = one.samples()
        for variant, clock in sorted(samples.keys() & reference.keys(), key=lambda key: (key[0], key[1])):
            if clock not in (*RANKED_CLOCKS, *DEVICE_CLOCKS):
                continue
            pair = reference[variant, clock], samples[variant, clock]
            ratio = statistics.speedup(*pair, seed=rule.seed, level=rule.level, resamples=rule.resamples)
            before, after = (_median(side) for side in pair)
            rows.append(
                {
                    **asdict(variant),
                    "clock": clock,
                    "machine": label,
                    "baseline": baseline,
                    "baseline_seconds": before,
                    "seconds": after,
                    "speedup": ratio.value,
                    "low": ratio.low,
                    "high": ratio.high,
                    "verdict": ratio.verdict,
                }
            )
    columns = ["machine", "baseline", "baseline_seconds", "seconds", "speedup", "low", "high", "verdict"]
    return pd.DataFrame(rows, columns=[*FACTORS, "clock", *columns])


def _median(invocations: Any) -> float:
    return float(pd.Series([pd.Series(samples).median() for samples in invocations]).median())
