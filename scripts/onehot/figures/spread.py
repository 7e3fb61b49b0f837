"""Every sample by the process that took it: whether processes differ more than the samples within one."""

from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onehot import frames as tables
from onehot import theme
from onehot.figures import absences
from onehot.figures.absences import COMPARED, drawable, title_of
from onehot.figures.registry import figure
from onehot.frames import Frames
from onehot.presentation import seconds_text

QUESTION_AND_ANSWER = ("published_loop", "fancy_index")
MOST_NUMBERED = 10
"""Processes that can be named below their samples; more are numbered by the axis."""

WIDE = 3.0
"""A range of more than this factor is drawn on a log axis."""


@figure
def spread(frames: Frames) -> Figure:
    """Draw samples by invocation, for the question's loop and the answer's lookup."""
    chosen = tables.main_slice(frames.variants)
    variants, backends = chosen.rows, absences.backends_asked(frames)[:2]
    names = _implementations(variants)
    minibatch = absences.question_minibatch(frames, variants) if len(variants) else 0
    variants = variants[variants["minibatch"] == minibatch]
    drawn, panels = theme.sheet(2.58 * len(names) - 0.68, len(names), len(backends))
    notes: list[str] = []
    for line, name in zip(panels, names, strict=True):
        for axes, backend in zip(line, backends, strict=True):
            own = variants[(variants["implementation"] == name) & (variants["backend"] == backend)]
            notes += _panel(frames, axes, (name, backend, minibatch), own)
        line[0].set_ylabel("time per minibatch")
    for axes in panels[-1]:
        axes.set_xlabel("process (invocation); n: its samples")
    theme.finish(
        drawn,
        title="Samples by process" + (f", {absences.at_size(minibatch)}" if minibatch else ""),
        subtitle=absences.subtitle(frames, "throughput clock", chosen.setting),
        notes=[_reading(), *notes],
        margins=theme.Margins(left=0.78, right=0.15, across=0.8, down=0.68, below=0.62),
    )
    return drawn


def _reading() -> str:
    return (
        "A dot is a sample, from left to right in the order taken; box: quartiles, line: median, whiskers: 5 "
        "and 95 %. ×: flagged as an outlier, kept in every statistic; at the edge where it lies beyond."
    )


def _implementations(rows: pd.DataFrame) -> list[str]:
    """Return the question's loop and the answer's lookup; where one was not measured, the next that was."""
    known = theme.in_order(list(rows["implementation"]))
    wanted = [name for name in QUESTION_AND_ANSWER if name in known]
    return (wanted + [name for name in known if name not in wanted])[:2] or ["fancy_index"]


def _panel(frames: Frames, axes: Axes, which: tuple[str, str, int], own: pd.DataFrame) -> list[str]:
    """Draw the samples of one variant; return what could not be drawn."""
    name, backend, minibatch = which
    title = f"{name} on {title_of(backend)}"
    every = frames.measurements
    samples = every[every["variant"].isin(own["variant"]) & (every["clock"] == COMPARED)]
    shown = samples[drawable(samples["seconds"])]
    if shown.empty:
        axes.set_title(title)
        theme.say(axes, absences.why_absent(frames, backend, implementation=name, minibatch=minibatch))
        axes.set_yticks([])
    else:
        median = float(shown.groupby("invocation")["seconds"].median().median())
        axes.set_title(f"{title}: median {seconds_text(median)}")
        _limits(axes, shown)
        _boxes(axes, shown)
        _dots(axes, shown, name, backend)
    return _lost(title, samples, shown, axes.get_ylim())


def _limits(axes: Axes, samples: pd.DataFrame) -> None:
    """Fit the vertical axis to what is not flagged, or one far outlier would flatten the rest."""
    plain = samples.loc[~(samples["outlier"] > 0), "seconds"]
    fitted = plain if len(plain) else samples["seconds"]
    low, high = float(fitted.min()), float(fitted.max())
    if high > WIDE * low:
        theme.time_axis(axes, "y", [low, high])
    else:
        room = 0.08 * (high - low) or 0.02 * low
        theme.linear_time_axis(axes, low - room, high + 2 * room)


def _boxes(axes: Axes, samples: pd.DataFrame) -> None:
    sns.boxplot(
        data=samples,
        x="invocation",
        y="seconds",
        ax=axes,
        native_scale=True,
        width=0.8,
        whis=(5, 95),
        showfliers=False,
        showcaps=False,
        color="#e8e8e8",
        linecolor="#7a7a7a",
        linewidth=0.9,
    )
    numbers, counts = sorted(set(samples["invocation"])), samples.groupby("invocation").size()
    axes.set_xlim(numbers[0] - 0.6, numbers[-1] + 0.6)
    axes.set(xlabel="", ylabel="")
    if len(numbers) <= MOST_NUMBERED:
        axes.set_xticks(numbers, [f"{number:g}\nn = {counts[number]}" for number in numbers])


def _dots(axes: Axes, samples: pd.DataFrame, name: str, backend: str) -> None:
    """Draw every sample beside the one taken before it; an outlier beyond the panel stands at its edge."""
    within = samples.groupby("invocation")["sample"]
    rank, last = within.rank(method="first") - 1, (within.transform("size") - 1).clip(lower=1)
    places = samples["invocation"] + 0.7 * (rank / last - 0.5)
    heights = samples["seconds"].clip(*axes.get_ylim())
    flagged = samples["outlier"] > 0
    style: dict[str, Any] = {
        **theme.marker(name, filled=backend != "numpy"),
        "mew": 0.7,
        "ls": "",
        "zorder": 3,
    }
    dots: dict[str, Any] = {**style, "marker": "o", "ms": 2.6}
    crosses: dict[str, Any] = {**style, "marker": "x", "ms": 5, "clip_on": False}
    axes.plot(places[~flagged], heights[~flagged], gid="samples", **dots)
    axes.plot(places[flagged], heights[flagged], gid="outliers", **crosses)


def _lost(title: str, samples: pd.DataFrame, shown: pd.DataFrame, limits: tuple[float, float]) -> list[str]:
    """Name the samples that have no place in the panel, and the variant that has one process only."""
    notes, lost = [], len(samples) - len(shown)
    beyond = shown.loc[~shown["seconds"].between(*limits), "seconds"]
    if lost:
        notes.append(f"{title}: {lost} of {len(samples)} samples are zero or missing and not drawn.")
    if len(beyond):
        farthest = seconds_text(beyond.max())
        notes.append(f"{title}: {len(beyond)} flagged beyond the edge, the farthest at {farthest}.")
    if shown["invocation"].nunique() == 1:
        notes.append(f"{title}: one process only, so nothing is known of the spread between processes.")
    return notes
