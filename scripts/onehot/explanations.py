"""Why the times are what they are: what each cause costs, what was counted, what unit costs predict.

Each function takes the records of one machine and returns one tidy frame; ``everything`` returns them all
by the names of their files. Nothing here changes a measurement: it is the second reading of what ``tables``
reads.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from onehot import claims, clocks, implementations, model, statistics, tables
from onehot.implementations.ladder import LADDERS
from onehot.implementations.registry import CSR, INDICES, LOOKUP, ONE_HOT
from onehot.records import LedgerRecord, MeasurementRecord
from onehot.tables import FACTORS, Results, Rule, Samples
from onehot.variant import ITEM_BYTES, Variant

CLOCK = clocks.THROUGHPUT
"""What a loop of minibatches feels: the clock of the ladder and of the model."""

TRANSFERS = ("fancy_index", "pageable_in", "pinned_in", "pageable_in_out", "pinned_in_out")
GRID = [2**power for power in range(21)]
"""Minibatches at which the predicted crossover and the memory boundary are looked for."""

REPRESENTATIONS = {"one-hot": ONE_HOT, "CSR": CSR, "indices": INDICES}


# The ladder ---------------------------------------------------------------------------------------


def ladder(results: Results, samples: Samples) -> pd.DataFrame:
    """Return every rung with its time, and the seconds that the cause it removes costs, with their interval.

    A rung that was not measured on a backend is passed over: what it removes is then in the next one's
    seconds, and ``cause`` names both.
    """
    rows: list[dict[str, Any]] = []
    for top in sorted(variant for variant, clock in samples if clock == CLOCK and _is_top(variant)):
        rows.extend(_climb(top, samples, results.rule))
    columns = [*FACTORS, "rung", "cause", "seconds", "low", "high", "removed", "removed_low", "removed_high"]
    return pd.DataFrame(rows, columns=[*columns, "share", "verdict"])


def _is_top(variant: Variant) -> bool:
    return variant.implementation == LADDERS[variant.geometry][0][0]


def _climb(top: Variant, samples: Samples, rule: Rule) -> Iterator[dict[str, Any]]:
    """Yield the rungs below one loop; shares are of the loop's own time."""
    above: statistics.Estimate | None = None
    whole, skipped, previous = math.nan, [], top
    for number, (name, cause) in enumerate(LADDERS[top.geometry]):
        variant = _rung(top, name, samples)
        if variant is None:
            skipped.append(cause)
            continue
        one = rule.estimate(samples[variant, CLOCK])
        whole = one.median if above is None else whole
        yield {
            **asdict(variant),
            "rung": number,
            "cause": " + ".join([*skipped, cause]),
            **{key: getattr(one, key) for key in ("low", "high")},
            "seconds": one.median,
            **(removed := _removed(above, one, whole)),
            "verdict": _told(removed, rule, samples[previous, CLOCK], samples[variant, CLOCK])
            if above is not None
            else "",
        }
        above, previous, skipped = one, variant, []


def _rung(top: Variant, name: str, samples: Samples) -> Variant | None:
    """Return the measured variant of a rung beside its loop, in its layout where the rung reads X."""
    entry = implementations.find(name, top.backend)
    if entry is None:
        return None
    layout = top.layout if entry.reads == ONE_HOT else "C"
    variant = dataclasses.replace(top, implementation=name, layout=layout)
    return variant if (variant, CLOCK) in samples else None


def _removed(above: statistics.Estimate | None, one: statistics.Estimate, whole: float) -> dict[str, float]:
    """Return the difference of two medians; its interval recovers each side's spread from its own interval.

    The limits of two independent estimates combine as the root of the sum of squares of the distances to them
    (Zou and Donner, Statistics in Medicine 27, 2008).
    """
    if above is None:
        return dict.fromkeys(("removed", "removed_low", "removed_high", "share"), math.nan)
    difference = above.median - one.median
    below = math.hypot(above.median - above.low, one.high - one.median)
    beyond = math.hypot(above.high - above.median, one.median - one.low)
    return {
        "removed": difference,
        "removed_low": difference - below,
        "removed_high": difference + beyond,
        "share": difference / whole,
    }


def _told(
    removed: Mapping[str, float], rule: Rule, before: Sequence[Any], after: Sequence[Any]
) -> statistics.Verdict:
    """Return the verdict of the ratio, where the interval of the difference holds no 0 either."""
    if removed["removed_low"] <= 0 <= removed["removed_high"]:
        return "inconclusive"
    return rule.ratio(before, after).verdict


# The ledger ---------------------------------------------------------------------------------------

LEDGER_COLUMNS = [
    "counted_by",
    "kernels",
    "kernel_seconds",
    "to_host",
    "to_device",
    "on_device",
    "copied_bytes",
    "memsets",
    "synchronizations",
    "driver_calls",
    "runtime_calls",
    "predicted_kernels",
    "predicted_to_host",
    "predicted_synchronizations",
    "pool_requests",
    "pool_bytes",
    "real_allocations",
    "real_bytes",
    "real_allocations_empty_pool",
    "device_peak_bytes",
    "host_peak_bytes",
    "page_faults",
    "derived_bytes_written",
    "predicted_peak_bytes",
    "status",
    "reason",
]


def ledger(results: Results) -> pd.DataFrame:
    """Return what one call of each variant asked of the machine, beside what its structure predicts.

    ``derived_bytes_written`` comes from shapes: it is what NumPy copies, which nothing counts.
    """
    machine = machine_of(results)
    rows = [_ledger_row(record, machine) for record in _by_variant(results.ledgers)]
    return pd.DataFrame(rows, columns=[*FACTORS, *LEDGER_COLUMNS])


def _by_variant(records: Iterable[LedgerRecord]) -> list[LedgerRecord]:
    return sorted(records, key=lambda record: record.variant.identity())


def _ledger_row(record: LedgerRecord, machine: model.Machine) -> dict[str, Any]:
    variant = record.variant.identity()
    row: dict[str, Any] = {
        **asdict(variant),
        "counted_by": "+".join(record.counted_by),
        "status": record.status,
        "reason": record.reason or "; ".join(record.absent.values()),
        "derived_bytes_written": model.bytes_copied(variant),
        "predicted_peak_bytes": _predicted_peak(variant),
    }
    return row | _counted(record) | _memory(record) | _predicted_counts(variant, machine)


def _predicted_peak(variant: Variant) -> float:
    """Return what the counters see: all that is held on a device, what a call adds on the host."""
    entry = implementations.find(variant.implementation, variant.backend)
    if entry is None:
        return math.nan
    added = variant.result_bytes + entry.temporaries(variant)
    held = variant.table_bytes + entry.input_bytes(variant)
    return float(added if variant.backend == "numpy" else held + added)


def _counted(record: LedgerRecord) -> dict[str, Any]:
    counts = record.counts
    if counts is None:
        return {}
    copies = {"DTOH": 0, "HTOD": 0, "DTOD": 0}
    for one in counts.copies:
        copies[one.direction] = copies.get(one.direction, 0) + one.count
    return {
        "kernels": sum(counts.kernels.values()),
        "kernel_seconds": sum(counts.kernel_seconds.values()),
        "to_host": copies["DTOH"],
        "to_device": copies["HTOD"],
        "on_device": copies["DTOD"],
        "copied_bytes": sum(one.bytes * one.count for one in counts.copies),
        "memsets": sum(one.count for one in counts.memsets),
        "synchronizations": sum(
            number for kind, number in counts.synchronizations.items() if kind != "STREAM_WAIT_EVENT"
        ),
        "driver_calls": sum(counts.driver_calls.values()),
        "runtime_calls": sum(counts.runtime_calls.values()),
    }


def _memory(record: LedgerRecord) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if "warm" in record.device_memory:
        warm = record.device_memory["warm"]
        row |= {
            "pool_requests": warm.requests,
            "pool_bytes": warm.request_bytes,
            "real_allocations": warm.real,
            "real_bytes": warm.real_bytes,
            "device_peak_bytes": warm.peak_bytes,
        }
    if "empty_pool" in record.device_memory:
        row["real_allocations_empty_pool"] = record.device_memory["empty_pool"].real
    if record.host_memory:
        row |= {
            "host_peak_bytes": record.host_memory.peak_bytes,
            "page_faults": record.host_memory.page_faults,
        }
    return row


def _predicted_counts(variant: Variant, machine: model.Machine) -> dict[str, Any]:
    if variant.backend != "cupy":
        return {}
    try:
        found = model.reached(variant, machine)
    except model.MissingLimitError:
        return {}
    if found is None:
        return {}
    return {
        "predicted_kernels": found.kernels,
        "predicted_to_host": found.to_host,
        "predicted_synchronizations": found.waits,
    }


def kernels(results: Results) -> pd.DataFrame:
    """Return every kernel by name: launches of one call, and the device seconds that CUPTI stamped."""
    rows = [
        {
            **asdict(record.variant.identity()),
            "kernel": name,
            "launches": launches,
            "device_seconds": record.counts.kernel_seconds.get(name, math.nan),
        }
        for record in _by_variant(results.ledgers)
        if record.counts
        for name, launches in record.counts.kernels.items()
    ]
    return pd.DataFrame(rows, columns=[*FACTORS, "kernel", "launches", "device_seconds"])


# The model ----------------------------------------------------------------------------------------


def machine_of(results: Results, limits: pd.DataFrame | None = None) -> model.Machine:
    """Return the unit costs of the machine that the records come from, and the sizes of its caches."""
    frame = tables.limits(results) if limits is None else limits
    # an item's cost is a difference: where noise makes it negative it is nothing, not missing
    usable = frame[frame["value"].notna() & ((frame["unit"] == "seconds") | (frame["value"] > 0))]
    costs = {(row.backend, row.name): model.Cost(row.value, row.unit) for row in _named(usable)}
    sizes: dict[str, int] = {}
    for record in (*results.measurements, *results.limits, *results.ledgers):
        if record.provenance is not None:
            host, gpu = record.provenance.host, record.provenance.gpu or {}
            found = {
                "l2_bytes": host.get("l2_bytes"),
                "l3_bytes": host.get("l3_bytes"),
                "device_l2_bytes": gpu.get("l2_bytes"),
                "cores": host.get("affinity_count"),
            }
            sizes = {**{key: int(value) for key, value in found.items() if value}, **sizes}
    return model.Machine(costs, **sizes)


@dataclasses.dataclass(frozen=True)
class _LimitRow:
    backend: str
    name: str
    unit: str
    value: float


def _named(frame: pd.DataFrame) -> Iterator[_LimitRow]:
    for row in frame.to_dict("records"):
        yield _LimitRow(str(row["backend"]), str(row["name"]), str(row["unit"]), float(row["value"]))


def prediction(results: Results, samples: Samples) -> pd.DataFrame:
    """Return the seconds that unit costs predict for every variant beside the measured ones.

    ``ratio`` is predicted over measured: under 1, a cost is missing from the model. ``reason`` says why there
    is no prediction, or why one is off by more than a factor of two.
    """
    machine = machine_of(results)
    sets = {record.variant.identity(): record.index_sets or 1 for record in _measured(results)}
    rows = []
    for variant in sorted(variant for variant, clock in samples if clock == CLOCK):
        if implementations.task_of(variant.implementation) != LOOKUP:
            continue
        one = results.rule.estimate(samples[variant, CLOCK])
        here = dataclasses.replace(machine, index_sets=sets.get(variant, 1))
        measured = {"measured": one.median, "low": one.low, "high": one.high}
        rows.append({**asdict(variant), "clock": CLOCK, **measured, **_predicted(variant, here, one)})
    columns = ["predicted", "measured", "low", "high", "ratio", "host_seconds", "device_seconds"]
    return pd.DataFrame(rows, columns=[*FACTORS, "clock", *columns, "bytes_seconds", "reason"])


def _measured(results: Results) -> list[MeasurementRecord]:
    return [record for record in results.measurements if record.status == "ok"]


FAILED_BY = 2.0
"""A prediction that is off by more than this factor has to say why."""


def _predicted(variant: Variant, machine: model.Machine, measured: statistics.Estimate) -> dict[str, Any]:
    try:
        found = model.predict(variant, machine)
    except model.MissingLimitError as error:
        return {"reason": str(error)}
    ratio = found.seconds / measured.median
    return {
        "predicted": found.seconds,
        "ratio": ratio,
        "host_seconds": found.host_seconds,
        "device_seconds": found.device_seconds,
        "bytes_seconds": found.bytes_seconds,
        "reason": _failure(variant, found, measured) if not 1 / FAILED_BY <= ratio <= FAILED_BY else "",
    }


def _failure(variant: Variant, found: model.Prediction, measured: statistics.Estimate) -> str:
    """Say why a prediction may fail: limits never measured, what the structure omits, a loose time."""
    reasons = []
    if found.without:
        reasons.append(f"coarser costs stand in for limits never measured: {', '.join(found.without)}")
    if variant.implementation in model.WEAKNESSES:
        reasons.append(model.WEAKNESSES[variant.implementation])
    if measured.low <= found.seconds <= measured.high:
        reasons.append("the measured interval holds the prediction")
    return "; ".join(reasons) or f"most of the prediction is {found.largest}"


def accuracy(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return how far predictions are from measurements on each backend: median, and worst and where."""
    rows = []
    for backend, group in predictions.dropna(subset=["ratio"]).groupby("backend", sort=True):
        factors = group["ratio"].where(group["ratio"] >= 1, 1 / group["ratio"])
        worst = group.iloc[int(factors.to_numpy().argmax())]
        rows.append(
            {
                "backend": backend,
                "variants": len(group),
                "median_error": float(np.median(np.abs(group["ratio"] - 1))),
                "median_ratio": float(group["ratio"].median()),
                "worst_factor": float(factors.max()),
                "worst_implementation": worst["implementation"],
                "worst_minibatch": worst["minibatch"],
                "within_25_percent": float((np.abs(group["ratio"] - 1) <= 0.25).mean()),
                "within_factor_2": float((factors <= 2).mean()),
            }
        )
    columns = ["backend", "variants", "median_error", "median_ratio", "worst_factor", "worst_implementation"]
    return pd.DataFrame(rows, columns=[*columns, "worst_minibatch", "within_25_percent", "within_factor_2"])


def predicted_crossover(results: Results, crossovers: pd.DataFrame) -> pd.DataFrame:
    """Return, for each implementation on both, the minibatch at which CuPy is predicted to overtake NumPy."""
    machine = machine_of(results)
    measured = crossovers[crossovers["clock"] == CLOCK]
    lookups = [implementations.task_of(name) == LOOKUP for name in measured["implementation"]]
    measured = measured[np.array(lookups, bool)]
    rows = []
    for row in measured.to_dict("records"):
        predicted, reason = _predicted_crossing({str(key): value for key, value in row.items()}, machine)
        rows.append(
            {
                "geometry": row["geometry"],
                "implementation": row["implementation"],
                "baseline_threads": row["baseline_threads"],
                "predicted": predicted,
                "predicted_description": reason,
                "measured": row["minibatch"],
                "low": row["low"],
                "high": row["high"],
                "measured_description": row["description"],
            }
        )
    columns = ["geometry", "implementation", "baseline_threads", "predicted", "predicted_description"]
    return pd.DataFrame(rows, columns=[*columns, "measured", "low", "high", "measured_description"])


def _predicted_crossing(row: dict[str, Any], machine: model.Machine) -> tuple[float, str]:
    """Return the first minibatch of the grid from which CuPy is predicted to stay ahead."""
    fixed = {name: row[name] for name in FACTORS if name in row and name != "minibatch"}
    try:
        ahead = [m for m in GRID if _gain(fixed, int(row["baseline_threads"]), m, machine) > 1]
    except model.MissingLimitError as error:
        return math.nan, f"not predicted: {error}"
    behind = [m for m in GRID if m not in ahead]
    if not ahead or (behind and max(behind) == GRID[-1]):
        return math.nan, f"none up to {GRID[-1]}"
    if not behind:
        return math.nan, "faster at every minibatch"
    first = min(m for m in ahead if m > max(behind))
    return float(first), f"between {first // 2} and {first}"


def _gain(fixed: dict[str, Any], numpy_threads: int, minibatch: int, machine: model.Machine) -> float:
    """Return NumPy's predicted time over CuPy's."""
    times = []
    for backend, threads in (("numpy", numpy_threads), ("cupy", 1)):
        factors = {**fixed, "minibatch": minibatch, "backend": backend, "threads": threads}
        times.append(model.predict(Variant(**factors), machine).seconds)
    return times[0] / times[1]


# Transfers, memory, contrasts ---------------------------------------------------------------------


def transfers(results: Results, samples: Samples) -> pd.DataFrame:
    """Return CuPy's lookup with indices and result at home on the device, or on the host, against NumPy's."""
    rows: list[dict[str, Any]] = []
    for variant in sorted(variant for variant, clock in samples if clock == CLOCK):
        if variant.backend == "numpy" or variant.implementation not in TRANSFERS:
            continue
        if variant.distribution != "uniform":
            continue  # the arms that travel have no other law, and a row does not name it
        on_numpy = dataclasses.replace(variant, backend="numpy", implementation="fancy_index")
        if (on_numpy, CLOCK) not in samples:
            continue
        pair = samples[on_numpy, CLOCK], samples[variant, CLOCK]
        ratio = results.rule.ratio(*pair)
        rows.append(
            {
                **asdict(variant),
                "numpy_seconds": results.rule.estimate(pair[0]).median,
                "seconds": results.rule.estimate(pair[1]).median,
                "speedup": ratio.value,
                "low": ratio.low,
                "high": ratio.high,
                "verdict": ratio.verdict,
            }
        )
    columns = ["numpy_seconds", "seconds", "speedup", "low", "high", "verdict"]
    return _with_crossover(pd.DataFrame(rows, columns=[*FACTORS, *columns]))


def training(results: Results, samples: Samples) -> pd.DataFrame:
    """Return gradients and whole steps of training beside the lookup, each against its plain form.

    The plain form, on the same backend: ``scatter_add_at`` for a scatter, ``step_loop`` for a step. A step
    holds seven lookups and seven scatters of a minibatch: one of the centres, six of the contexts.
    """
    timed = [variant for variant, clock in samples if clock == CLOCK]
    steps = [one for one in timed if implementations.task_of(one.implementation) != LOOKUP]
    lookups = {dataclasses.replace(one, implementation="fancy_index", threads=1) for one in steps}
    rows: list[dict[str, Any]] = []
    for variant in sorted({*steps, *(one for one in lookups if (one, CLOCK) in samples)}):
        task = implementations.task_of(variant.implementation)
        one = results.rule.estimate(samples[variant, CLOCK])
        row = {**asdict(variant), "task": task, "seconds": one.median, "low": one.low, "high": one.high}
        plain = dataclasses.replace(variant, implementation=tables.PLAIN.get(task, ""), threads=1)
        if plain != variant and (plain, CLOCK) in samples:
            ratio = results.rule.ratio(samples[plain, CLOCK], samples[variant, CLOCK])
            interval = {"speedup_low": ratio.low, "speedup_high": ratio.high, "verdict": ratio.verdict}
            row |= {"baseline": plain.implementation, "speedup": ratio.value, **interval}
        rows.append(row)
    columns = ["task", "seconds", "low", "high", "baseline", "speedup", "speedup_low", "speedup_high"]
    return pd.DataFrame(rows, columns=[*FACTORS, *columns, "verdict"])


def _with_crossover(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the minibatch at which each arm overtakes NumPy, the same in all rows of the arm."""
    frame["crossover"] = ""
    others = [name for name in FACTORS if name != "minibatch"]
    for _, group in frame.groupby(others, sort=False):
        ordered = group.sort_values("minibatch")
        ratios = [
            statistics.Ratio(row["speedup"], row["low"], row["high"], row["verdict"])
            for row in ordered.to_dict("records")
        ]
        found = statistics.crossover(ordered["minibatch"].tolist(), ratios)
        frame.loc[group.index, "crossover"] = found.describe()
    return frame


def boundary(results: Results) -> pd.DataFrame:
    """Return, for each minibatch, the largest vocabulary whose minibatch still fits beside W0 and h, by form.

    Memory is what was free when the backend was asked; the sizes are those of the study's first setting.
    """
    configured = results.configuration
    embedding, dtype = configured["embedding"][0], configured["dtype"][0]
    rows = [
        {
            "backend": record.backend,
            "representation": name,
            "minibatch": minibatch,
            "largest_vocabulary": _largest_vocabulary(reads, minibatch, embedding, dtype, record.free_bytes),
            "free_bytes": record.free_bytes,
        }
        for record in sorted(results.backends, key=lambda one: one.backend)
        if record.free_bytes
        for name, reads in REPRESENTATIONS.items()
        for minibatch in GRID
    ]
    columns = ["backend", "representation", "minibatch", "largest_vocabulary", "free_bytes"]
    return pd.DataFrame(rows, columns=columns)


def _largest_vocabulary(reads: str, minibatch: int, embedding: int, dtype: str, free: int) -> int:
    """Solve W0 + minibatch + h = free for V: W0 grows with V, and of the forms only the dense one does."""
    item = ITEM_BYTES[dtype]
    row = minibatch * item if reads == ONE_HOT else 0
    fixed = minibatch * embedding * item
    fixed += {ONE_HOT: 0, CSR: minibatch * (item + 8) + 8, INDICES: minibatch * 8}[reads]
    return max(0, (free - fixed) // (embedding * item + row))


def contrasts(results: Results, samples: Samples) -> pd.DataFrame:
    """Return what one factor does, all else being equal: X's memory order, the indices' law, a hot L2."""
    distinct = {record.variant.identity(): record.distinct_rows for record in _measured(results)}
    rows = [
        {
            **asdict(first[0]),
            "factor": factor,
            "from": names[0],
            "to": names[1],
            "clock": first[1],
            **_contrast(samples[first], samples[second], results.rule),
            "distinct_rows": _mean(distinct.get(first[0], [])),
            "distinct_rows_after": _mean(distinct.get(second[0], [])),
        }
        for factor, names, first, second in _pairs(samples)
    ]
    columns = ["factor", "from", "to", "clock", "seconds", "seconds_after", "ratio", "low", "high", "verdict"]
    return pd.DataFrame(rows, columns=[*FACTORS, *columns, "distinct_rows", "distinct_rows_after"])


Key = tuple[Variant, str]


def _pairs(samples: Samples) -> Iterator[tuple[str, tuple[str, str], Key, Key]]:
    """Yield measurements that differ in one factor alone."""
    skewed: dict[Key, list[Variant]] = defaultdict(list)
    for variant, clock in samples:
        if variant.distribution == "zipf":
            uniform = dataclasses.replace(variant, distribution="uniform", zipf_exponent=0.0)
            skewed[uniform, clock].append(variant)
    for variant, clock in sorted(samples):
        key = (variant, clock)
        if clock == CLOCK and variant.layout == "C":
            other = (dataclasses.replace(variant, layout="F"), clock)
            if other in samples:
                yield "memory order of X", ("C", "F"), key, other
        if variant.distribution == "uniform" and clock in (CLOCK, clocks.DEVICE_COLD):
            for found in skewed[key]:
                law = f"zipf {found.zipf_exponent:g}"
                yield "law of the indices", ("uniform", law), key, (found, clock)
        if clock == clocks.DEVICE_COLD and (variant, clocks.DEVICE_HOT) in samples:
            yield "L2 cache", ("flushed", "hot"), key, (variant, clocks.DEVICE_HOT)


def _contrast(before: Sequence[Any], after: Sequence[Any], rule: Rule) -> dict[str, Any]:
    ratio = rule.ratio(before, after)
    medians = rule.estimate(before).median, rule.estimate(after).median
    interval = {"low": ratio.low, "high": ratio.high, "verdict": ratio.verdict}
    return {"seconds": medians[0], "seconds_after": medians[1], "ratio": ratio.value, **interval}


def _mean(values: Sequence[int]) -> float:
    return float(np.mean(values)) if values else math.nan


# Witnesses ----------------------------------------------------------------------------------------

WITNESSED = {
    "cold": (clocks.DEVICE_COLD,),
    "batch": (clocks.DEVICE_HOT, clocks.THROUGHPUT),
    "host": (clocks.THROUGHPUT,),
}
"""Which clocks stand beside each time of a witness."""

AGREEMENT = 0.03
"""Two clocks agree within this fraction."""


def witness(results: Results, samples: Samples) -> pd.DataFrame:
    """Return each time of NVBench and pyperf beside this study's clocks; ``ratio`` is ours over theirs."""
    rows: list[dict[str, Any]] = []
    for record in sorted(results.witnesses, key=lambda one: one.variant.identity()):
        variant = record.variant.identity()
        known = {**asdict(variant), "tool": record.tool, "status": record.status, "reason": record.reason}
        if not record.seconds:
            rows.append(known)
        for name, values in record.seconds.items():
            for clock in WITNESSED[name]:
                theirs = float(np.median(values))
                row = {**known, "witness": name, "witness_seconds": theirs, "clock": clock}
                rows.append({**row, **_agreement(variant, clock, theirs, samples, results.rule)})
    columns = ["tool", "witness", "witness_seconds", "clock", "seconds", "low", "high", "ratio", "agrees"]
    return pd.DataFrame(rows, columns=[*FACTORS, *columns, "status", "reason"])


def _agreement(variant: Variant, clock: str, theirs: float, samples: Samples, rule: Rule) -> dict[str, Any]:
    """Return our time, its ratio to theirs, whether they agree, and where the host explains why not."""
    if (variant, clock) not in samples:
        return {"reason": f"no {clock} clock of this variant was measured"}
    one = rule.estimate(samples[variant, clock])
    ratio = one.median / theirs
    return {
        "seconds": one.median,
        "low": one.low,
        "high": one.high,
        "ratio": ratio,
        "agrees": "yes" if abs(ratio - 1) <= AGREEMENT else "no",
        "reason": _disagreement(variant, one, theirs, samples, rule),
    }


def _disagreement(
    variant: Variant,
    ours: statistics.Estimate,
    theirs: float,
    samples: Samples,
    rule: Rule,
) -> str:
    if abs(ours.median / theirs - 1) <= AGREEMENT:
        return ""
    enqueue = samples.get((variant, clocks.ENQUEUE))
    slower = max(ours.median, theirs)
    if enqueue and (host := rule.estimate(enqueue).median) > HOST_BOUND * slower:
        return f"bound by the host, which queues a call in {host * 1e6:.3g} µs; the device is faster"
    if ours.low <= theirs <= ours.high:
        return "within this study's interval"
    return "not explained"


HOST_BOUND = 0.8
"""A time of calls back to back of which enqueueing takes this share is the host's, whoever measured it."""


# All of it ----------------------------------------------------------------------------------------


def everything(results: Results, frames: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return every table of this module by name; ``frames`` are those of ``tables``."""
    samples = results.samples()
    found = {
        "ladder": ladder(results, samples),
        "ledger": ledger(results),
        "kernels": kernels(results),
        "prediction": prediction(results, samples),
        "predicted_crossover": predicted_crossover(results, frames["crossover"]),
        "transfers": transfers(results, samples),
        "training": training(results, samples),
        "witness": witness(results, samples),
        "boundary": boundary(results),
        "contrasts": contrasts(results, samples),
    }
    found["accuracy"] = accuracy(found["prediction"])
    evidence = claims.Evidence(
        summary=frames["summary"],
        speedup=frames["speedup"],
        limits=frames["limits"],
        ladder=found["ladder"],
        ledger=found["ledger"],
        prediction=found["prediction"],
    )
    found["claims"] = claims.judged(evidence)
    return found
