"""The one registry of figures."""

import functools
from collections.abc import Callable

from matplotlib.figure import Figure

from onehot import theme
from onehot.frames import Frames

Draw = Callable[[Frames], Figure]

FIGURES: dict[str, Draw] = {}
"""Every figure by name; the catalogue says where it stands in the report."""


def figure(function: Draw) -> Draw:
    """Register a figure under its function's name, drawn in the study's theme."""

    @functools.wraps(function)
    def themed(frames: Frames) -> Figure:
        with theme.applied():
            return function(frames)

    FIGURES[function.__name__] = themed
    return themed
