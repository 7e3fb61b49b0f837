"""How close to the hardware a lookup comes: the time that its own bytes and launches need at the least.

The bound of a variant is what this machine's measured limits (``limits``) allow for its own size:

    bound = max(launches, bytes)
    bytes = distinct rows read where they lie + the rest of the rows read from the cache + h written

A row that a minibatch names twice comes from where it lies once. Rows lie in the GPU's L2 where all that
the rotating minibatches touch fits there beside h, and in memory otherwise or where the L2 was flushed; h
is written to memory unless it fits beside them. What fills more than half of the L2 is read at the rate
measured with a table that does. On the CPU the nearest memory that holds both serves both.

Reads and writes can overlap, and a cache can keep a result that fits in it. So a second, lower number,
``floor_seconds``, lets the slower of the two win, leaves in the cache what would fit there alone, reads the
cache at its best rate, and counts no launch: nothing can be faster, and what claims to be is flagged as
implausible.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from onehot import clocks, explanations, implementations, model, statistics
from onehot.backends import registry as backends
from onehot.implementations.registry import INDICES, LOOKUP, Implementation
from onehot.records import MeasurementRecord
from onehot.tables import FACTORS, Results, Samples
from onehot.variant import ITEM_BYTES, Variant

CLOCKS = (clocks.THROUGHPUT, clocks.DEVICE_COLD, clocks.DEVICE_HOT)
"""Clocks that wait for the work; a latency holds a wait that no byte explains."""

LAUNCH, CACHE, CACHE_AND_MEMORY, MEMORY = "launch", "cache", "cache and memory", "memory"
"""What binds: the host's launches, the nearest cache, the cache for rows and memory for h, memory."""

_LEVELS = {"cached": "copy_bandwidth_cached", "last": "copy_bandwidth_last", "memory": "copy_bandwidth"}


@dataclass(frozen=True)
class Bound:
    """Least seconds a minibatch.

    Attributes
    ----------
    launch_seconds : of the host's launches or calls.
    bytes_seconds : reads, then writes.
    floor_seconds : the slower of the two alone.
    binding : which of them the bound is.
    """

    launch_seconds: float
    bytes_seconds: float
    floor_seconds: float
    binding: str

    @property
    def seconds(self) -> float:
        """The bound."""
        return max(self.launch_seconds, self.bytes_seconds)


def bound(variant: Variant, clock: str, distinct: float, sets: int, machine: model.Machine) -> Bound:
    """Return the bound of one variant on one clock.

    Parameters
    ----------
    distinct : rows of W0 that a minibatch names, each counted once.
    sets : minibatches that rotate.

    Raises
    ------
    MissingLimitError
        Names the limit that was not measured.
    """
    row = variant.embedding * ITEM_BYTES[variant.dtype]
    once, written = distinct * row, float(variant.result_bytes)
    again = max(variant.result_rows * row - once, 0.0)
    touched = min(variant.vocabulary, distinct * sets) * row
    if not backends.on_device(variant.backend):
        return _on_host(variant, once, again, written, touched, machine)
    near = touched + written <= machine.device_l2_bytes and clock != clocks.DEVICE_COLD
    rows_near = touched <= machine.device_l2_bytes and clock != clocks.DEVICE_COLD
    source = model.device_read_limit(machine, touched) if rows_near else "read_bandwidth"
    target = model.device_read_limit(machine, touched + written) if near else "write_bandwidth"
    near_source = source if rows_near else "l2_read_bandwidth"
    read = machine.seconds("cupy", {source: once}) + machine.seconds("cupy", {near_source: again})
    write = machine.seconds("cupy", {target: written})
    entry = entry_of(variant)
    group = entry.group(variant) if entry else 1
    launch = machine.seconds("cupy", {"launch": 1.0}) / group if clock == clocks.THROUGHPUT else 0.0
    where = CACHE if near else CACHE_AND_MEMORY if rows_near else MEMORY
    kept = written * group <= machine.device_l2_bytes
    least_read = machine.seconds("cupy", {"l2_read_bandwidth": again})
    least_read += machine.seconds("cupy", {"l2_read_bandwidth" if rows_near else source: once})
    least_write = machine.seconds("cupy", {"l2_read_bandwidth" if kept else "write_bandwidth": written})
    return _bound(launch, read, write, where, max(least_read, least_write))


def _on_host(
    variant: Variant, once: float, again: float, written: float, touched: float, machine: model.Machine
) -> Bound:
    """Return the bound on the CPU, whose limits are those of copies: half of them reads, half writes.

    Several threads have as many caches of their own, and share the memory.
    """
    threads = machine.cores if variant.threads == 0 else variant.threads
    level = model.nearest_memory(machine, touched + written)
    if level != "cached" and model.nearest_memory(machine, (touched + written) / threads) == "cached":
        level = "cached"
    name = _LEVELS[level] if machine.has("numpy", _LEVELS[level]) else "copy_bandwidth"
    if level == "memory" and threads > 1:
        name, threads = "copy_bandwidth_all", 1
    cached = _LEVELS["cached"] if machine.has("numpy", _LEVELS["cached"]) else name
    read, write = (machine.seconds("numpy", {name: amount}) / threads for amount in (once, written))
    read += machine.seconds("numpy", {cached: again}) / threads
    has_call = variant.backend == "numpy" and machine.has("numpy", "take_out_few")
    call = machine.seconds("numpy", {"take_out_few": 1.0}) if has_call else 0.0
    return _bound(call, read, write, MEMORY if level == "memory" else CACHE, max(read, write))


def _bound(launch: float, read: float, write: float, where: str, floor: float) -> Bound:
    return Bound(launch, read + write, floor, LAUNCH if launch > read + write else where)


COLUMNS = (
    *("clock", "seconds", "low", "high", "bytes", "bytes_per_second", "distinct_rows", "launch_seconds"),
    *("bytes_seconds", "bound_seconds", "floor_seconds", "binding", "fraction", "fraction_low"),
    *("fraction_high", "reads", "implausible", "reason"),
)


def bounds(results: Results, samples: Samples) -> pd.DataFrame:
    """Return every lookup's achieved bytes a second beside its bound; ``fraction`` is bound over measured.

    ``bytes`` are the rows read and written by a minibatch. ``implausible`` holds the finding where the whole
    interval of a time lies under ``statistics.implausible`` times the floor.
    """
    machine = explanations.machine_of(results)
    factor = results.configuration["statistics"].get("implausible", 0.95)
    known = _distinct(results.measurements)
    rows = []
    for variant, clock in sorted(samples, key=lambda key: (key[0], key[1])):
        entry = entry_of(variant)
        if clock not in CLOCKS or (entry is not None and entry.task != LOOKUP) or variant not in known:
            continue
        one = results.rule.estimate(samples[variant, clock])
        moved = 2.0 * variant.result_bytes
        row: dict[str, Any] = {
            **asdict(variant),
            "clock": clock,
            "seconds": one.median,
            "low": one.low,
            "high": one.high,
            "bytes": moved,
            "bytes_per_second": moved / one.median,
            "distinct_rows": known[variant][0],
            "reads": entry.reads if entry else "",
        }
        rows.append(row | _beside(variant, clock, one, known[variant], machine, factor))
    return pd.DataFrame(rows, columns=[*FACTORS, *COLUMNS])


def entry_of(variant: Variant) -> Implementation | None:
    """Return a variant's implementation; None for one that this version does not have."""
    known = variant.implementation in implementations.names()
    return implementations.find(variant.implementation, variant.backend) if known else None


def _distinct(records: Sequence[MeasurementRecord]) -> dict[Variant, tuple[float, int]]:
    """Return the mean number of distinct rows of a minibatch, and the minibatches that rotate."""
    return {
        record.variant.identity(): (
            float(np.mean(record.distinct_rows)),
            max(record.index_sets or 1, 1) * record.minibatches_per_call,
        )
        for record in records
        if record.status == "ok" and record.distinct_rows
    }


def _beside(
    variant: Variant,
    clock: str,
    one: statistics.Estimate,
    known: tuple[float, int],
    machine: model.Machine,
    factor: float,
) -> dict[str, Any]:
    try:
        found = bound(variant, clock, *known, machine)
    except model.MissingLimitError as error:
        return {"implausible": "", "reason": str(error)}
    slowest = one.high if np.isfinite(one.high) else one.median
    too_fast = slowest < factor * found.floor_seconds
    return {
        "launch_seconds": found.launch_seconds,
        "bytes_seconds": found.bytes_seconds,
        "bound_seconds": found.seconds,
        "floor_seconds": found.floor_seconds,
        "binding": found.binding,
        "fraction": found.seconds / one.median,
        "fraction_low": found.seconds / one.high,
        "fraction_high": found.seconds / one.low,
        "implausible": f"{clock} beats what its bytes need by {found.floor_seconds / slowest:.2f}x"
        if too_fast
        else "",
        "reason": "",
    }


def flagged(status: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Return the status table with the implausible times of each variant in a column of their own."""
    texts: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for *row, text in found[[*FACTORS, "implausible"]].itertuples(index=False, name=None):
        texts[tuple(row)] += [text] if text else []
    named = status[FACTORS].itertuples(index=False, name=None)
    return status.assign(implausible=["; ".join(texts[row]) for row in named])


def gathers(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the lookups that read indices at once: their work is the bytes that the bound counts.

    Loops over rows and what decodes a one-hot matrix first do other work beside it.
    """
    loops = {entry.name for _, entry in implementations.entries() if entry.module.endswith(".loops")}
    alike = (frame["reads"] == INDICES) & (frame["geometry"] == "corrected")
    kept: pd.DataFrame = frame[alike & ~frame["implementation"].isin(loops)]
    return kept
