"""The explaining tables as a reader meets them; importing this registers them beside the others."""

import math
from typing import Any

import pandas as pd

from onehot import bounds, frames
from onehot.frames import FACTORS
from onehot.presentation import ABSENT, NAMES, PRESENTED, interval_text, seconds_text, significant

Row = dict[str, Any]


def _who(row: Row) -> Row:
    """Return what names a variant in these tables: the other factors stand in the CSV."""
    return {
        "geometry": row["geometry"],
        "backend": NAMES.get(row["backend"], row["backend"]),
        "implementation": row["implementation"],
        "minibatch": row["minibatch"],
    }


def _percent(share: Any) -> str:
    return ABSENT if pd.isna(share) else f"{100 * share:.1f} %"


def _count(value: Any) -> str:
    return ABSENT if pd.isna(value) else f"{value:,.0f}".replace(",", "\u202f")


def _beside(counted: Any, predicted: Any) -> str:
    """Return a count, and what the structure predicts where that is something else."""
    if pd.isna(predicted) or counted == predicted:
        return _count(counted)
    return f"{_count(counted)} (predicted {_count(predicted)})"


def _bytes(value: float) -> str:
    if math.isnan(value):
        return ABSENT
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= size:
            return f"{significant(value / size)} {unit}"
    return f"{value:.0f} B"


def ladder(frame: pd.DataFrame) -> pd.DataFrame:
    """One line a rung: its time, and what the cause that it is rid of costs."""
    return pd.DataFrame(
        {
            **_who(row),
            "X": row["layout"],
            "without": row["cause"],
            "time [interval]": interval_text(row["seconds"], row["low"], row["high"], seconds_text),
            "saves [interval]": interval_text(
                row["removed"], row["removed_low"], row["removed_high"], seconds_text
            ),
            "of the loop": _percent(row["share"]),
            "verdict": row["verdict"],
        }
        for row in frames.records(frame)
    )


def ledger(frame: pd.DataFrame) -> pd.DataFrame:
    """Show the counts of one call, with the structure's where they differ, and bytes in units."""
    return pd.DataFrame(
        {
            **_who(row),
            "counted by": row["counted_by"].replace("+", ", "),
            "kernels": _beside(row["kernels"], row["predicted_kernels"]),
            "their device time": seconds_text(row["kernel_seconds"]),
            "copies to host": _beside(row["to_host"], row["predicted_to_host"]),
            "copies to device": _count(row["to_device"]),
            "memsets": _count(row["memsets"]),
            "synchronisations": _beside(row["synchronizations"], row["predicted_synchronizations"]),
            "driver calls": _count(row["driver_calls"]),
            "runtime calls": _count(row["runtime_calls"]),
            "pool requests": _count(row["pool_requests"]),
            "real allocations (empty pool)": _allocations(row),
            "bytes written (from shapes)": _bytes(row["derived_bytes_written"]),
            "peak on device": _bytes(row["device_peak_bytes"]),
            "peak on host": _bytes(row["host_peak_bytes"]),
            "predicted peak": _bytes(row["predicted_peak_bytes"]),
            "page faults": _count(row["page_faults"]),
            "remark": row["reason"],
        }
        for row in frames.records(frame)
    )


def _allocations(row: Row) -> str:
    if math.isnan(float(row["real_allocations"])):
        return ABSENT
    return f"{_count(row['real_allocations'])} ({_count(row['real_allocations_empty_pool'])})"


def kernels(frame: pd.DataFrame) -> pd.DataFrame:
    """One line a kernel."""
    return pd.DataFrame(
        {
            **_who(row),
            "kernel": row["kernel"],
            "launches": _count(row["launches"]),
            "device time of all": seconds_text(row["device_seconds"]),
        }
        for row in frames.records(frame)
    )


def prediction(frame: pd.DataFrame) -> pd.DataFrame:
    """Predicted beside measured, with the side that the prediction spends its time on."""
    return pd.DataFrame(
        {
            **_who(row),
            "X": row["layout"],
            "threads": "all" if row["threads"] == 0 else row["threads"],
            "predicted": seconds_text(row["predicted"]),
            "measured [interval]": interval_text(row["measured"], row["low"], row["high"], seconds_text),
            "predicted / measured": significant(row["ratio"]),
            "host": seconds_text(row["host_seconds"]),
            "device": seconds_text(row["device_seconds"]),
            "of it bytes": seconds_text(row["bytes_seconds"]),
            "remark": row["reason"],
        }
        for row in frames.records(frame)
    )


def accuracy(frame: pd.DataFrame) -> pd.DataFrame:
    """How far the predictions of each backend are off."""
    return pd.DataFrame(
        {
            "backend": NAMES.get(row["backend"], row["backend"]),
            "variants": row["variants"],
            "median error": _percent(row["median_error"]),
            "median ratio": significant(row["median_ratio"]),
            "worst factor": f"{significant(row['worst_factor'])} ({row['worst_implementation']}, "
            f"m = {row['worst_minibatch']})",
            "within 25 %": _percent(row["within_25_percent"]),
            "within a factor of 2": _percent(row["within_factor_2"]),
        }
        for row in frames.records(frame)
    )


def predicted_crossover(frame: pd.DataFrame) -> pd.DataFrame:
    """Where CuPy should overtake NumPy, and where it does."""
    return pd.DataFrame(
        {
            "geometry": row["geometry"],
            "implementation": row["implementation"],
            "NumPy threads": "all" if row["baseline_threads"] == 0 else row["baseline_threads"],
            "predicted": row["predicted_description"],
            "measured": row["measured_description"],
        }
        for row in frames.records(frame)
    )


def transfers(frame: pd.DataFrame) -> pd.DataFrame:
    """Lookups with and without the way to the device, against NumPy's."""
    return pd.DataFrame(
        {
            "implementation": row["implementation"],
            "minibatch": row["minibatch"],
            "NumPy": seconds_text(row["numpy_seconds"]),
            "CuPy": seconds_text(row["seconds"]),
            "speed-up [interval]": interval_text(row["speedup"], row["low"], row["high"], significant),
            "verdict": row["verdict"],
            "overtakes NumPy at minibatch": row["crossover"],
        }
        for row in frames.records(frame)
    )


def training(frame: pd.DataFrame) -> pd.DataFrame:
    """Lookup, gradient and whole step, with what each saves on its plain form."""
    return pd.DataFrame(
        {
            "task": row["task"],
            "backend": NAMES.get(row["backend"], row["backend"]),
            "implementation": row["implementation"],
            "minibatch": row["minibatch"],
            "threads": "all" if row["threads"] == 0 else row["threads"],
            "time [interval]": interval_text(row["seconds"], row["low"], row["high"], seconds_text),
            "against": row["baseline"] if isinstance(row["baseline"], str) else ABSENT,
            "speed-up [interval]": interval_text(
                row["speedup"], row["speedup_low"], row["speedup_high"], significant
            ),
            "verdict": row["verdict"] if isinstance(row["verdict"], str) else ABSENT,
        }
        for row in frames.records(frame.sort_values(["task", *FACTORS]))
    )


def bounds_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Show what lookups that read indices reach, and what binds them; all others stand in the CSV."""
    own = bounds.gathers(frame)
    return pd.DataFrame(
        {
            "V": row["vocabulary"],
            "backend": NAMES.get(row["backend"], row["backend"]),
            "implementation": row["implementation"],
            "minibatch": row["minibatch"],
            "threads": "all" if row["threads"] == 0 else row["threads"],
            "indices": row["distribution"],
            "clock": row["clock"].replace("_", ", "),
            "time [interval]": interval_text(row["seconds"], row["low"], row["high"], seconds_text),
            "read and written": f"{significant(row['bytes_per_second'] / 1e9)} GB/s",
            "distinct rows": significant(row["distinct_rows"], 4),
            "bound": seconds_text(row["bound_seconds"]),
            "binds": row["binding"] if isinstance(row["binding"], str) else ABSENT,
            "of the bound": _percent(row["fraction"]),
            "remark": row["implausible"] or row["reason"],
        }
        for row in frames.records(own)
    )


def targets(frame: pd.DataFrame) -> pd.DataFrame:
    """Show each target and what was reached."""
    return pd.DataFrame(
        {
            "target": row["target"],
            "minibatch": row["minibatch"],
            "threshold": significant(row["threshold"]),
            "reached by": row["by"] if isinstance(row["by"], str) else ABSENT,
            "against": row["against"] if isinstance(row["against"], str) else ABSENT,
            "value [interval]": interval_text(row["value"], row["low"], row["high"], significant),
            "verdict": row["verdict"],
        }
        for row in frames.records(frame)
    )


def advice(frame: pd.DataFrame) -> pd.DataFrame:
    """Say what to write in a range of minibatches; times are those at its two ends."""
    single = [name for name in ("vocabulary", "dtype", "distribution") if frame[name].nunique() > 1]
    return pd.DataFrame(
        {
            "you hold": row["start"],
            "backend": NAMES.get(row["backend"], row["backend"]),
            **{name: row[name] for name in single},
            "minibatch": _range(row["smallest"], row["largest"]),
            "forms measured": row["forms"],
            "fastest (lines)": f"{row['fastest']}{_cores(row['fastest_threads'])} ({row['fastest_lines']})",
            "time": _range_text(row["fastest_first"], row["fastest_last"]),
            "not told from it": row["ties"] or ABSENT,
            "simplest within 10 % (lines)": f"{row['simplest']}{_cores(row['simplest_threads'])} "
            f"({row['simplest_lines']})",
            "its time": _range_text(row["simplest_first"], row["simplest_last"]),
        }
        for row in frames.records(frame)
    )


def _cores(threads: int) -> str:
    return ", all cores" if threads == 0 else ""


def _range(smallest: int, largest: int) -> str:
    return str(smallest) if smallest == largest else f"{smallest} to {largest}"


def _range_text(first: float, last: float) -> str:
    return seconds_text(first) if first == last else f"{seconds_text(first)} to {seconds_text(last)}"


def witness(frame: pd.DataFrame) -> pd.DataFrame:
    """Show this study's clocks beside those of NVBench and pyperf."""
    return pd.DataFrame(
        {
            "backend": NAMES.get(row["backend"], row["backend"]),
            "implementation": row["implementation"],
            "minibatch": row["minibatch"],
            "witness": f"{row['tool']}, {row['witness']}" if isinstance(row["witness"], str) else ABSENT,
            "its time": seconds_text(row["witness_seconds"]),
            "clock": str(row["clock"]).replace("_", ", ") if isinstance(row["clock"], str) else ABSENT,
            "time [interval]": interval_text(row["seconds"], row["low"], row["high"], seconds_text),
            "ours / its": significant(row["ratio"]),
            "within 3 %": row["agrees"] if isinstance(row["agrees"], str) else ABSENT,
            "remark": row["reason"],
        }
        for row in frames.records(frame)
    )


def boundary(frame: pd.DataFrame) -> pd.DataFrame:
    """Show the largest vocabulary that fits, a column for each form of the minibatch."""
    if frame.empty:
        return pd.DataFrame()
    wide = frame.pivot(index=["backend", "minibatch"], columns="representation", values="largest_vocabulary")
    return pd.DataFrame(
        {
            "backend": NAMES.get(row["backend"], row["backend"]),
            "minibatch": row["minibatch"],
            **{f"largest V, {name}": _count(row[name]) for name in wide.columns},
        }
        for row in frames.records(wide.reset_index())
    )


def contrasts(frame: pd.DataFrame) -> pd.DataFrame:
    """Pairs that differ in one factor."""
    return pd.DataFrame(
        {
            **_who(row),
            "factor": row["factor"],
            "from": row["from"],
            "to": row["to"],
            "clock": row["clock"].replace("_", ", "),
            "time before": seconds_text(row["seconds"]),
            "time after": seconds_text(row["seconds_after"]),
            "ratio [interval]": interval_text(row["ratio"], row["low"], row["high"], significant),
            "verdict": row["verdict"],
            "distinct rows": _distinct(row),
        }
        for row in frames.records(frame)
    )


def _distinct(row: Row) -> str:
    before, after = row["distinct_rows"], row["distinct_rows_after"]
    return ABSENT if math.isnan(before) else f"{significant(before, 4)} → {significant(after, 4)}"


def claims(frame: pd.DataFrame) -> pd.DataFrame:
    """Show what the answer says, and what the study says to it."""
    return frame[["statement", "verdict", "evidence", "rule"]].rename(columns={"statement": "claim"})


PRESENTED.update(
    {
        "ladder": ladder,
        "ledger": ledger,
        "kernels": kernels,
        "prediction": prediction,
        "accuracy": accuracy,
        "predicted_crossover": predicted_crossover,
        "transfers": transfers,
        "training": training,
        "witness": witness,
        "bounds": bounds_table,
        "targets": targets,
        "advice": advice,
        "boundary": boundary,
        "contrasts": contrasts,
        "claims": claims,
    }
)
