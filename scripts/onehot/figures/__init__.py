"""The figures: a module and a function each, from frames to a figure that says what it could not show.

A log axis has no zero, a band needs two points and a panel may have nothing at all. The plotting libraries
answer that with an error, or by leaving a point out in silence; here every such case leaves a marker, a note
or both.
"""

from onehot.figures import bounds, clocks, headline, speedup, spread, time  # noqa: F401  (importing registers them)
from onehot.figures.registry import FIGURES, figure

__all__ = ["FIGURES", "figure"]
