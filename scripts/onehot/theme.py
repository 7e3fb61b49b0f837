"""How every figure looks: one colour and shape an implementation, human units, the same bytes each time."""

import io
import math
import textwrap
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from onehot.presentation import seconds_text, whole_or_absent

INK, QUIET, FAINT = "#1c1c1c", "#555555", "#b5b5b5"
SMALL, NORMAL, TITLE = 8.0, 8.5, 11.0
"""Type sizes in points; nothing is smaller than 8, at 100 % and in print."""

WIDTH = 7.48
"""Inches: 190 mm, the whole width of a printed page."""

HEADER = 0.5
NOTE_LINE = 0.155
NOTE_CHARACTERS = 112
LABEL_GAP = 10.5
"""Points between two labels beside an axes, one line of type."""


@dataclass(frozen=True)
class Look:
    """Colour and marker of one implementation."""

    colour: str
    marker: str


_LOOP, _DECODE = Look("#b2182b", "o"), Look("#6b6b00", "D")

LOOKS = {
    "published_loop": _LOOP,
    "loop_vstack": _LOOP,
    "loop_list_stack": Look("#d9730d", "s"),
    "loop_preallocated": Look("#7f4a0c", "^"),
    "dense_dot": Look("#6a2c91", "P"),
    "sparse_dot": Look("#c2449b", "X"),
    "published_gather": _DECODE,
    "argmax_take": _DECODE,
    "fancy_index": Look("#0b55b5", "o"),
    "take": Look("#12876a", "v"),
    "take_out": Look("#3f9bd6", "h"),
    "take_wide": Look("#8a5a83", "D"),
    "elementwise_kernel": Look("#8d6e63", "v"),
    "raw_kernel": Look("#3d7d3d", "^"),
    "raw_kernel_out": Look("#1f4f1f", "s"),
    "cuda_graph": Look("#202020", "*"),
    "torch_index": Look("#b3541e", "o"),
    "torch_index_select": Look("#b3541e", "s"),
    "torch_embedding": Look("#b3541e", "D"),
    "torch_index_graph": Look("#a3320b", "*"),
    "torch_index_select_graph": Look("#a3320b", "P"),
    "torch_embedding_graph": Look("#a3320b", "X"),
    "jax_take": Look("#5e35b1", "v"),
    "jax_take_clip": Look("#5e35b1", "^"),
    "numba_prange": Look("#00695c", "<"),
    "numba_prange_out": Look("#00695c", ">"),
}
"""In the order of every list: loops warm, products purple, gathers blue and green, each library a colour.

What computes the same idea in the two geometries shares a look; the two never stand in one panel."""

SPARE = tuple(
    Look(colour, marker) for marker in "*p<" for colour in ("#404040", "#8a5a83", "#3d7d3d", "#a05050")
)
"""For implementations that came later: by name, so that they too keep theirs in every figure."""

DASHES = {"numpy": (0, (3.0, 1.6))}
"""NumPy is dashed with open markers, everything else solid and filled: also in grey."""


def look(implementation: str) -> Look:
    """Return the look of an implementation."""
    return LOOKS.get(implementation) or SPARE[zlib.crc32(implementation.encode()) % len(SPARE)]


def marker(implementation: str, *, filled: bool) -> dict[str, Any]:
    """Return colour and marker of an implementation as matplotlib takes them."""
    own = look(implementation)
    face = own.colour if filled else "white"
    return {"color": own.colour, "marker": own.marker, "mfc": face, "mec": own.colour}


def in_order(implementations: Sequence[str]) -> list[str]:
    """Return names, each once, in the order of every list; unknown ones last, by name."""
    known = list(LOOKS)
    return sorted(
        set(implementations), key=lambda name: (known.index(name) if name in LOOKS else len(known), name)
    )


@contextmanager
def applied() -> Iterator[None]:
    """Set matplotlib's parameters for the figures, whatever the user's own matplotlibrc says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        parameters: Any = {**sns.axes_style("whitegrid"), **sns.plotting_context("paper"), **_PARAMETERS}
        matplotlib.rcParams.update(parameters)
        yield


_PARAMETERS: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": NORMAL,
    "axes.titlesize": NORMAL,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": NORMAL,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.fontsize": SMALL,
    "xtick.bottom": True,
    "xtick.major.size": 3.5,
    "xtick.minor.size": 2,
    "xtick.major.width": 0.7,
    "xtick.minor.width": 0.7,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.2,
    "text.color": INK,
    "svg.hashsalt": "onehot",
    "svg.fonttype": "path",  # the reader's machine need not have the font
    "pdf.fonttype": 42,
    "pdf.compression": 6,
    "savefig.dpi": 200,
    "figure.facecolor": "white",
}

_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
"""What would make two drawings of the same data differ: dates and versions."""


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's ending, the same bytes each time, whole or not at all."""
    ending = path.suffix.removeprefix(".")
    drawn = io.BytesIO()
    with applied():
        figure.savefig(drawn, format=ending, metadata=_METADATA[ending])
    whole_or_absent(path, drawn.getvalue())


# Sheets: a title above, panels, notes below ------------------------------------------------------


def sheet(height: float, rows: int = 1, columns: int = 1, **grid: Any) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure whose panels together take ``height`` inches; `finish` adds room for text."""
    figure = Figure(figsize=(WIDTH, height + HEADER))
    axes = figure.subplots(rows, columns, squeeze=False, **grid)
    return figure, [list(row) for row in axes]


@dataclass(frozen=True)
class Margins:
    """Inches beside the panels (left, right, above, below) and between them (across, down)."""

    left: float
    right: float
    above: float = 0.25
    below: float = 0.5
    across: float = 0.0
    down: float = 0.0


def finish(figure: Figure, *, title: str, subtitle: str, notes: Sequence[str], margins: Margins) -> None:
    """Set title, subtitle and notes, each note once, and give the panels their final place between."""
    lines = [line for note in dict.fromkeys(notes) for line in _wrapped(note)]
    body = figure.get_figheight() - HEADER
    footer = margins.below + NOTE_LINE * len(lines) + (0.08 if lines else 0)
    height = body + HEADER + margins.above + footer
    figure.set_figheight(height)
    quiet: dict[str, Any] = {"size": SMALL, "color": QUIET}
    edge = 0.1 / WIDTH
    figure.text(edge, 1 - 0.08 / height, title, size=TITLE, weight="bold", va="top", gid="title")
    figure.text(edge, 1 - 0.33 / height, subtitle, va="top", gid="subtitle", **quiet)
    for number, line in enumerate(lines, start=1):
        place = (0.07 + NOTE_LINE * (len(lines) - number)) / height
        figure.text(edge, place, line, va="bottom", gid="note", **quiet)
    figure.align_ylabels()
    _place(figure, margins, footer / height, 1 - (HEADER + margins.above) / height, body)


def _wrapped(note: str) -> list[str]:
    return textwrap.wrap(note, NOTE_CHARACTERS, subsequent_indent="   ")


def _place(figure: Figure, margins: Margins, bottom: float, top: float, body: float) -> None:
    """Turn inches into the shares of the figure and of a panel that matplotlib wants."""
    place = figure.axes[0].get_subplotspec()
    assert place is not None
    down, across = place.get_gridspec().get_geometry()
    panel_width = (WIDTH - margins.left - margins.right - margins.across * (across - 1)) / across
    panel_height = (body - margins.down * (down - 1)) / down
    figure.subplots_adjust(
        left=margins.left / WIDTH,
        right=1 - margins.right / WIDTH,
        bottom=bottom,
        top=top,
        wspace=margins.across / panel_width,
        hspace=margins.down / panel_height,
    )


def say(axes: Axes, text: str) -> None:
    """Say in the middle of a panel why it is empty."""
    words = textwrap.fill(text, 26, break_long_words=False)
    axes.text(
        0.5,
        0.5,
        words,
        transform=axes.transAxes,
        ha="center",
        va="center",
        size=SMALL,
        color=QUIET,
        gid="empty",
    )
    axes.grid(False)
    axes.tick_params(axis="x", which="both", bottom=False, labelbottom=False)
    axes.xaxis.label.set_visible(False)


# Axes --------------------------------------------------------------------------------------------


def _seconds(value: float, _: Any = None) -> str:
    return seconds_text(float(f"{value:.9g}"))


def _multiple(value: float, _: Any = None) -> str:
    return f"{float(f'{value:.9g}'):,g}×".replace(",", "\u202f")


def log_limits(values: Sequence[float], room: float = 1.5) -> tuple[float, float]:
    """Return limits of a log axis with room on both sides, at least a decade apart."""
    low, high = min(values) / room, max(values) * room
    short = max(1.0, (10 / (high / low)) ** 0.5)
    return low / short, high * short


def time_axis(axes: Axes, which: str, values: Sequence[float]) -> None:
    """Make an axis logarithmic, in ns, µs, ms or s."""
    low, high = log_limits(values or (1e-6, 1e-3))
    _log_axis(axes, which, low, high, _seconds)


def linear_time_axis(axes: Axes, low: float, high: float) -> None:
    """Make the vertical axis linear, in ns, µs, ms or s."""
    axes.set_ylim(low, high)
    axes.yaxis.set_major_formatter(FuncFormatter(_seconds))


def rows_axis(axes: Axes, texts: Sequence[str]) -> None:
    """Give the vertical axis one line a text, from top to bottom."""
    axes.set_ylim(max(len(texts), 1) - 0.5, -0.5)
    axes.set_yticks(range(len(texts)), list(texts))
    axes.grid(True, axis="y", ls=":")


def ratio_axis(axes: Axes, values: Sequence[float]) -> None:
    """Make the vertical axis logarithmic, in multiples."""
    low, high = log_limits(values)
    _log_axis(axes, "y", low, high, _multiple)


def _log_axis(axes: Axes, which: str, low: float, high: float, text: Any) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
    between = (1.0,) if high / low > 50 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=between, numticks=20))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(text))


def minibatch_axis(axes: Axes, minibatches: Sequence[int], width: float = 2.0) -> None:
    """Make the horizontal axis, ``width`` inches long, logarithmic, with ticks at what was measured."""
    sizes = sorted(set(minibatches)) or [1]
    low, high = sizes[0] / 1.4, sizes[-1] * 1.4
    if len(sizes) == 1:
        low, high = sizes[0] / 4, sizes[0] * 4
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    labelled = _with_room(sizes, width / math.log(high / low))
    axes.xaxis.set_major_locator(FixedLocator(labelled))
    axes.xaxis.set_minor_locator(FixedLocator([size for size in sizes if size not in labelled]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("minibatch size m (rows)")


def _with_room(sizes: Sequence[int], inches: float) -> list[int]:
    """Return the sizes whose labels do not touch, from the largest down; ``inches`` is a factor of e."""
    digit = 0.64 * SMALL / 72
    kept: list[int] = []
    for size in reversed(sizes):
        if not kept or inches * math.log(kept[-1] / size) > digit * (
            1 + (len(str(kept[-1])) + len(str(size))) / 2
        ):
            kept.append(size)
    return sorted(kept)


def beside(
    axes: Axes,
    text: str,
    place: tuple[float, float],
    points: float,
    colour: str = INK,
    coordinates: Any = "data",
    gid: str = "value",
) -> None:
    """Write so many points to the right of a place."""
    style: dict[str, Any] = {"va": "center", "size": SMALL, "color": colour, "gid": gid}
    axes.annotate(text, place, (points, 0), xycoords=coordinates, textcoords="offset points", **style)


# Labels beside lines -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Label:
    """What to write beside a panel, for a line that ends at ``x, y``."""

    text: str
    x: float
    y: float
    colour: str


def label_lines(axes: Axes, labels: Sequence[Label]) -> None:
    """Write labels to the right of a panel, each as near to its line's end as the others allow."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    points = 72.0 / figure.dpi
    box = axes.get_position()
    bottom, top = (edge * figure.get_figheight() * 72 for edge in (box.y0, box.y1))
    right = box.x1 * figure.get_figwidth() * 72
    order = sorted(labels, key=lambda label: label.y)
    ends = [axes.transData.transform((label.x, label.y)) * points for label in order]
    heights = spread_apart([float(end[1]) for end in ends], LABEL_GAP, bottom, top)
    for label, end, height in zip(order, ends, heights, strict=True):
        axes.annotate(
            label.text,
            xy=(label.x, label.y),
            xytext=(right - float(end[0]) + 17, height - float(end[1])),
            textcoords="offset points",
            va="center",
            size=SMALL,
            color=label.colour,
            annotation_clip=False,
            gid=f"label:{label.text}",
            arrowprops={
                "arrowstyle": "-",
                "color": label.colour,
                "lw": 0.5,
                "ls": ":",
                "shrinkA": 1,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )


def spread_apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions at least ``gap`` apart, as near to the wanted ascending ones as least squares has it.

    Without the gaps this is isotonic regression: neighbours out of order are pooled at their mean.
    """
    blocks: list[list[float]] = []
    for number, position in enumerate(wanted):
        blocks.append([position - number * gap])
        while len(blocks) > 1 and _mean(blocks[-2]) > _mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    ceiling = max(high - (len(wanted) - 1) * gap, low)
    pooled = [min(max(_mean(block), low), ceiling) for block in blocks for _ in block]
    return [position + number * gap for number, position in enumerate(pooled)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
