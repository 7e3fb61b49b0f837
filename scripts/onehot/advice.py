"""What to write instead: the fastest form at each minibatch, and the simplest that is nearly as fast.

*Simplest* is counted, not judged: the lines of code that a reader would write, which are the function's own
and those of what it prepares, with the kernels' source that they name. Docstrings and comments count nothing.
"""

import ast
import functools
import inspect
import itertools
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd

from onehot import bounds, clocks, explanations, implementations, tables
from onehot.backends import registry as backends
from onehot.implementations.registry import INDICES, LOOKUP, ONE_HOT, Implementation
from onehot.tables import FACTORS, Results, Rule, Samples
from onehot.variant import CORRECTED, Variant

CLOCK = clocks.THROUGHPUT

NEARLY = 1.1
"""A form within this factor of the fastest is as good as it, and may be simpler."""

MANY = "tokens of many minibatches"
"""Who knows them in advance can have one call serve a group: another service than a minibatch at a time."""

STARTING_POINTS = {(CORRECTED, INDICES): "tokens", (CORRECTED, ONE_HOT): "one-hot X"}
"""What the reader holds already; forms are compared with those that start from the same."""

SETTINGS = ["vocabulary", "embedding", "dtype", "index_dtype", "distribution", "zipf_exponent", "layout"]


_MODULES = {entry.module for _, entry in implementations.entries()} - {implementations.registry.__name__}


def lines_of_code(entry: Implementation) -> int:
    """Return the lines that a reader would have to write for an implementation."""
    seen: dict[str, int] = {}
    for function in (entry.function, entry.prepare):
        _count(function, seen)
    return sum(seen.values())


def _count(part: Any, seen: dict[str, int]) -> None:
    """Count a function, and what it names of its own module: functions, and text of several lines."""
    if isinstance(part, functools.partial):
        for inner in (part.func, *part.args):
            _count(inner, seen)
        return
    if not isinstance(part, FunctionType) or part.__qualname__ in seen:
        return
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(part)))
    definition = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    definition.decorator_list = []
    if ast.get_docstring(definition):
        definition.body = definition.body[1:] or [ast.Pass()]
    seen[part.__qualname__] = len(ast.unparse(definition).splitlines())
    for value in inspect.getclosurevars(part).nonlocals.values():
        _count(value, seen)
    for name in sorted({node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}):
        value = vars(sys.modules[part.__module__]).get(name)
        if isinstance(value, str) and "\n" in value:
            seen[name] = sum(bool(line.strip()) for line in value.splitlines())
        elif isinstance(value, FunctionType) and value.__module__ in _MODULES:
            _count(value, seen)


@dataclass(frozen=True)
class Choice:
    """The answer at one minibatch.

    Attributes
    ----------
    forms : how many were measured here.
    fastest : the form with the lowest median, and those that no interval tells from it.
    simplest : the one with the fewest lines within `NEARLY` of the fastest.
    """

    minibatch: int
    forms: int
    fastest: Variant
    ties: tuple[str, ...]
    simplest: Variant


def advice(results: Results, samples: Samples) -> pd.DataFrame:
    """Return what to write by starting point, backend and range of minibatches, with times at both ends.

    Forms of one range share fastest and simplest; ``ties`` are the forms that no interval tells from the
    fastest at every minibatch of the range.
    """
    grouped: dict[tuple[Any, ...], list[Variant]] = defaultdict(list)
    for variant, clock in samples:
        entry = bounds.entry_of(variant)
        if clock != CLOCK or entry is None or entry.task != LOOKUP or entry.module.endswith(".ladder"):
            continue
        start = STARTING_POINTS.get((entry.geometry, entry.reads))
        if start is not None:
            setting = tuple(getattr(variant, name) for name in SETTINGS)
            if not entry.grouped:
                grouped[start, variant.backend, *setting].append(variant)
            if start == STARTING_POINTS[CORRECTED, INDICES]:
                grouped[MANY, variant.backend, *setting].append(variant)
    rows: list[dict[str, Any]] = []
    for key in sorted(grouped, key=str):
        named = dict(zip(["start", "backend", *SETTINGS], key, strict=True))
        variants = _with_a_group(grouped[key]) if key[0] == MANY else grouped[key]
        choices = list(_choices(variants, samples, results.rule))
        for _, run in itertools.groupby(choices, key=_answer):
            rows.append({**named, **_row(list(run), samples, results.rule)})
    return pd.DataFrame(rows, columns=["start", "backend", *SETTINGS, *COLUMNS])


COLUMNS = (
    *("smallest", "largest", "forms", "fastest", "fastest_threads", "fastest_lines", "ties", "simplest"),
    *("simplest_threads", "simplest_lines", "fastest_first", "fastest_last"),
    *("simplest_first", "simplest_last", "factor"),
)


def _with_a_group(variants: Sequence[Variant]) -> list[Variant]:
    """Keep the minibatches at which a form that serves a group was measured beside the single ones."""
    served = {
        variant.minibatch
        for variant in variants
        if implementations.get(variant.implementation, variant.backend).grouped
    }
    return [variant for variant in variants if variant.minibatch in served]


def _choices(variants: Sequence[Variant], samples: Samples, rule: Rule) -> Iterator[Choice]:
    """Yield the answer at each minibatch at which more than one form was measured."""
    for minibatch in sorted({variant.minibatch for variant in variants}):
        here = sorted(variant for variant in variants if variant.minibatch == minibatch)
        if len({variant.implementation for variant in here}) < 2:
            continue
        times = {variant: _median(samples[variant, CLOCK]) for variant in here}
        fastest = min(here, key=lambda variant: times[variant])
        ties = tuple(
            sorted(
                {
                    variant.implementation
                    for variant in here
                    if variant != fastest and _verdict(variant, fastest, samples, rule) == "inconclusive"
                }
                - {fastest.implementation}
            )
        )
        near = [variant for variant in here if times[variant] <= NEARLY * times[fastest]]
        simplest = min(near, key=lambda variant: (lines_of(variant), times[variant]))
        yield Choice(minibatch, len({one.implementation for one in here}), fastest, ties, simplest)


def _answer(choice: Choice) -> tuple[Any, ...]:
    """Return what neighbouring minibatches must share to stand in one row."""
    fastest, simplest = choice.fastest, choice.simplest
    said = fastest.implementation, fastest.threads, simplest.implementation, simplest.threads
    return *said, choice.forms


def _row(run: Sequence[Choice], samples: Samples, rule: Rule) -> dict[str, Any]:
    first, last = run[0], run[-1]
    always = set.intersection(*(set(choice.ties) for choice in run))
    times = {
        f"{name}_{end}": _median(samples[getattr(choice, name), CLOCK])
        for name in ("fastest", "simplest")
        for end, choice in (("first", first), ("last", last))
    }
    return {
        "smallest": first.minibatch,
        "largest": last.minibatch,
        "forms": first.forms,
        "fastest": first.fastest.implementation,
        "fastest_threads": first.fastest.threads,
        "fastest_lines": lines_of(first.fastest),
        "ties": ", ".join(sorted(always)),
        "simplest": first.simplest.implementation,
        "simplest_threads": first.simplest.threads,
        "simplest_lines": lines_of(first.simplest),
        **times,
        "factor": max(
            _median(samples[choice.simplest, CLOCK]) / _median(samples[choice.fastest, CLOCK])
            for choice in run
        ),
    }


def lines_of(variant: Variant) -> int:
    """Return the lines of a variant's implementation."""
    return lines_of_code(implementations.get(variant.implementation, variant.backend))


def _median(invocations: Sequence[np.ndarray[Any, Any]]) -> float:
    return float(np.median([np.median(samples) for samples in invocations]))


def _verdict(variant: Variant, fastest: Variant, samples: Samples, rule: Rule) -> str:
    """Say whether the fastest is told from another form."""
    pair = samples[variant, CLOCK], samples[fastest, CLOCK]
    return rule.ratio(*pair).verdict


# Targets ------------------------------------------------------------------------------------------


TORCH = ("torch_index_select", "torch_embedding", "torch_index")
TORCH_GRAPHS = tuple(f"{name}_graph" for name in TORCH)
OURS = ("take_wide", "elementwise_kernel", "raw_kernel", "raw_kernel_out")
GRAPH = ("cuda_graph",)
"""A graph serves many minibatches a call: it is compared with graphs alone."""


@dataclass(frozen=True)
class Target:
    """What this study set out to reach, in the corrected geometry at V = 50 000, E = 300, float32.

    Attributes
    ----------
    text : the target in words.
    minibatch : at which it is asked.
    threshold : what the value must reach, or stay under where ``at_most``.
    against : implementations whose fastest is the baseline of a ratio; empty for a time or a fraction.
    quantity : ``ratio``, ``fraction`` of the bound, or ``microseconds``, which must stay under.
    ours : implementations whose fastest is judged.
    """

    text: str
    minibatch: int
    threshold: float
    against: tuple[str, ...] = ()
    quantity: str = "ratio"
    ours: tuple[str, ...] = OURS


TARGETS = (
    Target("fastest single call against CuPy's W0[J]", 131_072, 3.2, ("fancy_index",)),
    Target("fastest single call against CuPy's W0[J]", 1_048_576, 3.2, ("fancy_index",)),
    Target("fastest single call against the best one of torch", 1_048_576, 1.15, TORCH),
    Target("fastest single call against the best one of torch", 2048, 1.6, TORCH),
    Target(
        "graph of four lanes against torch's own graph replay, a chain", 2048, 1.0, TORCH_GRAPHS, ours=GRAPH
    ),
    Target("fastest single call, fraction of the bound", 1_048_576, 0.85, quantity="fraction"),
    Target("graph, at most so many microseconds a minibatch", 2048, 2.0, (), "microseconds", GRAPH),
)


def targets(results: Results, samples: Samples, found: pd.DataFrame) -> pd.DataFrame:
    """Return each target with what was reached; ``found`` is the table of bounds.

    *reached* and *missed* are said where the interval lies on one side of the threshold; where it does not,
    the value decides and the verdict says so.
    """
    rows = [_judged(target, samples, results.rule, found) for target in TARGETS]
    columns = ["target", "minibatch", "threshold", "by", "against", "value", "low", "high", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def _judged(target: Target, samples: Samples, rule: Rule, found: pd.DataFrame) -> dict[str, Any]:
    row: dict[str, Any] = {
        "target": target.text,
        "minibatch": target.minibatch,
        "threshold": target.threshold,
        "verdict": "not measured",
    }
    ours = _fastest(target.ours, target.minibatch, samples)
    baseline = _fastest(target.against, target.minibatch, samples) if target.against else None
    if ours is None or (target.against and baseline is None):
        return row
    row["by"] = ours.implementation
    if baseline is not None:
        ratio = rule.ratio(samples[baseline, CLOCK], samples[ours, CLOCK])
        row |= {"against": baseline.implementation, "value": ratio.value, "low": ratio.low}
        row["high"] = ratio.high
    elif target.quantity == "fraction":
        at = found[(found[FACTORS] == pd.Series(asdict(ours))).all(axis=1) & (found["clock"] == CLOCK)]
        if at.empty or at["fraction"].isna().all():
            return row
        row |= {"value": at["fraction"].iloc[0], "low": at["fraction_low"].iloc[0]}
        row["high"] = at["fraction_high"].iloc[0]
    else:
        one = rule.estimate(samples[ours, CLOCK])
        row |= {"value": 1e6 * one.median, "low": 1e6 * one.low, "high": 1e6 * one.high}
    return row | {"verdict": _reached(row, at_most=target.quantity == "microseconds")}


def _reached(row: Mapping[str, Any], *, at_most: bool) -> str:
    sign = -1.0 if at_most else 1.0
    beyond = [sign * (row[name] - row["threshold"]) >= 0 for name in ("value", "low", "high")]
    known = math.isfinite(row["low"]) and math.isfinite(row["high"])
    said = "reached" if beyond[0] else "missed"
    return said if known and len(set(beyond)) == 1 else f"{said}, within the uncertainty"


def _fastest(names: Iterable[str], minibatch: int, samples: Samples) -> Variant | None:
    """Return the fastest measured variant of some implementations at the question's sizes."""
    here = [
        variant
        for variant, clock in samples
        if clock == CLOCK
        and variant.implementation in names
        and (variant.geometry, variant.minibatch, variant.vocabulary, variant.embedding, variant.dtype)
        == (CORRECTED, minibatch, 50_000, 300, "float32")
        and variant.distribution == "uniform"
        and backends.on_device(variant.backend)
    ]
    return min(here, key=lambda variant: _median(samples[variant, CLOCK]), default=None)


# All of it ----------------------------------------------------------------------------------------


def everything(results: Results) -> dict[str, pd.DataFrame]:
    """Return every table of the study by the name of its file."""
    frames = tables.everything(results)
    frames |= explanations.everything(results, frames)
    samples = results.samples()
    found = bounds.bounds(results, samples)
    return frames | {
        "bounds": found,
        "status": bounds.flagged(frames["status"], found),
        "advice": advice(results, samples),
        "targets": targets(results, samples, found),
    }
