"""Speed-up of CuPy over NumPy for the same implementation, and the minibatch from which it pays."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onehot import frames as tables
from onehot import theme
from onehot.figures import absences
from onehot.figures.absences import BACKENDS, COMPARED, drawable, title_of
from onehot.figures.curves import curves
from onehot.figures.registry import figure
from onehot.frames import Frames, records
from onehot.theme import Label

SAME = "NumPy, same implementation"

CROSSOVER_WORDS = {
    "always_faster": "CuPy faster at every size",
    "never": "CuPy overtakes at no size measured",
    "ambiguous": "no single crossover can be claimed",
    "one_point": "one size only, no crossover to ask for",
}


@figure
def speedup(frames: Frames) -> Figure:
    """Draw the speed-up of CuPy over NumPy for the same implementation, with the crossover marked."""
    every = frames.speedup
    ranked = every[(every["baseline"] == SAME) & (every["clock"] == COMPARED) & (every["backend"] == "cupy")]
    chosen = tables.main_slice(tables.best_baseline(ranked))
    geometries = absences.geometries_asked(frames)
    drawn, [panels] = theme.sheet(3.5, 1, len(geometries))
    labels = [_panel(frames, axes, name, chosen.rows) for axes, name in zip(panels, geometries, strict=True)]
    panels[0].set_ylabel("speed-up: NumPy's time / CuPy's time")
    for axes in panels[1:]:
        axes.tick_params(labelleft=False)
    theme.finish(
        drawn,
        title="Speed-up of CuPy over NumPy, the same implementation on both",
        subtitle=absences.subtitle(frames, absences.CLOCK_NOTE, chosen.setting),
        notes=[*_notes(frames, chosen.rows), *chosen.notes],
        margins=theme.Margins(left=0.78, right=1.4, across=1.47),
    )
    for axes, own in zip(panels, labels, strict=True):
        theme.label_lines(axes, own)
    return drawn


def _panel(frames: Frames, axes: Axes, geometry: str, every: pd.DataFrame) -> list[Label]:
    """Draw one geometry; the vertical axis is that of all."""
    rows = every[every["geometry"] == geometry]
    axes.set_title(f"{geometry} geometry")
    theme.minibatch_axis(axes, [int(size) for size in rows["minibatch"]])
    if rows.empty:
        measured = set(frames.summary["backend"])
        missing = [absences.why_absent(frames, name) for name in BACKENDS if name not in measured]
        theme.say(axes, "; ".join(missing) or "no implementation measured on both NumPy and CuPy")
        axes.set_yticks([])
        return []
    theme.ratio_axis(axes, [*absences.extent(every, "speedup"), 1.0])
    axes.axhline(1.0, color=theme.INK, lw=0.9, gid="reference")
    axes.axhspan(axes.get_ylim()[0], 1.0, color="#efefef", lw=0, zorder=0)
    labels = curves(axes, "cupy", rows, "speedup")
    _open_inconclusive(axes, rows)
    for row in records(_crossovers(frames, rows)):
        if row["kind"] == "crosses":
            _mark_crossover(axes, row["implementation"], row["minibatch"], (row["low"], row["high"]))
    return labels


def _open_inconclusive(axes: Axes, rows: pd.DataFrame) -> None:
    """Open the markers of ratios whose interval holds one."""
    inconclusive = rows[(rows["verdict"] == "inconclusive") & drawable(rows["speedup"])]
    for name, own in tables.by(inconclusive, "implementation"):
        style = {"ls": "", "zorder": 4, **theme.marker(name, filled=False)}
        axes.plot(own["minibatch"], own["speedup"], gid=f"inconclusive:{name}", **style)


def _mark_crossover(axes: Axes, name: str, minibatch: float, bracket: tuple[float, float]) -> None:
    colour = theme.look(name).colour
    axes.plot(bracket, [1, 1], color=colour, lw=3, alpha=0.5, solid_capstyle="butt", zorder=4)
    diamond: dict[str, Any] = {
        "marker": "d",
        "ms": 7,
        "mfc": colour,
        "mec": "white",
        "mew": 0.8,
        "ls": "",
        "zorder": 5,
    }
    axes.plot(minibatch, 1, gid=f"crossover:{name}", **diamond)


def _crossovers(frames: Frames, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the crossovers of the ratios shown."""
    keys = ["geometry", "implementation", *tables.SETTINGS, "baseline_threads", "clock"]
    return frames.crossover.merge(rows[keys].drop_duplicates(), on=keys)


def _notes(frames: Frames, rows: pd.DataFrame) -> list[str]:
    notes = absences.interval_notes(frames, rows, "the ratio")
    if len(rows):
        notes.append("Shaded: CuPy is slower.")
    if (rows["verdict"] == "inconclusive").any():
        notes.append("Open marker: inconclusive, neither faster nor slower can be claimed.")
    return [
        *notes,
        *_crossover_notes(_crossovers(frames, rows)),
        *absences.undrawable_notes(rows, "speedup"),
        *absences.one_size_notes(rows),
        *(_unpaired_notes(frames) if len(rows) else []),
    ]


def _crossover_notes(crossovers: pd.DataFrame) -> list[str]:
    """Explain the diamond, and name the implementations that have none."""
    notes, said = [], []
    if (crossovers["kind"] == "crosses").any():
        notes.append(
            "Diamond on the line at 1: crossover; its bar goes from the last size where CuPy is slower to "
            "the first where it is faster."
        )
    for kind, words in CROSSOVER_WORDS.items():
        names = theme.in_order(list(crossovers.loc[crossovers["kind"] == kind, "implementation"]))
        if names:
            said.append(f"{words}: {', '.join(names)}")
    return [*notes, f"{'; '.join(said)}."] if said else notes


def _unpaired_notes(frames: Frames) -> list[str]:
    """Name what one of the two backends measured and the other did not."""
    measured = tables.main_slice(frames.summary[frames.summary["clock"] == COMPARED]).rows
    keys = ["geometry", "implementation", "minibatch"]
    of = {name: measured.loc[measured["backend"] == name, keys] for name in BACKENDS}
    every = pd.concat(list(of.values())).drop_duplicates()
    notes = []
    for backend, other in (("numpy", "cupy"), ("cupy", "numpy")):
        there = set(of[other].itertuples(index=False, name=None))
        alone = of[backend][[row not in there for row in of[backend].itertuples(index=False, name=None)]]
        if len(alone):
            named = "; ".join(absences.sizes_lost(alone, every))
            notes.append(f"Without a ratio, because measured on {title_of(backend)} only: {named}.")
    return notes
