"""What the study puts out.

Names, captions and categories of tables and figures. Importing this imports no library.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """One table or figure.

    Attributes
    ----------
    name : of the file, without its ending.
    category : heading in the report.
    title : label in the report.
    formats : file endings.
    """

    name: str
    category: str
    title: str
    formats: tuple[str, ...]


CSV = ("csv",)
READ = ("csv", "html")
PAPER = ("csv", "tex", "md", "html")
DRAWN = ("svg", "pdf", "png")

TABLES = (
    Item("headline", "Findings", "The question's run, for real", PAPER),
    Item("speedup", "Findings", "Speed-up of every variant", PAPER),
    Item("crossover", "Findings", "Where CuPy overtakes NumPy", PAPER),
    Item("summary", "Measurements", "Median, interval and spread of every variant and clock", PAPER),
    Item("cold_start", "Measurements", "What the first call costs", PAPER),
    Item("limits", "Limits", "Unit costs and bandwidths of this machine", PAPER),
    Item("claims", "Claims", "The answer's claims, judged", PAPER),
    Item("ladder", "Ladder", "What each cause costs, from the loop to the lookup", PAPER),
    Item("ledger", "Ledger", "What one call asks of the machine", PAPER),
    Item("kernels", "Ledger", "Kernels of one call, by name", READ),
    Item("accuracy", "Model", "How far predictions are from measurements", PAPER),
    Item("prediction", "Model", "Predicted against measured time of every variant", PAPER),
    Item("predicted_crossover", "Model", "Where CuPy should overtake NumPy, and where it does", PAPER),
    Item("transfers", "Transfers", "With indices and result on the host", PAPER),
    Item("training", "Training", "Gradients and whole steps of training", PAPER),
    Item("boundary", "Transfers", "The largest vocabulary that fits in memory", READ),
    Item("contrasts", "Measurements", "Memory order, law of the indices, flushed L2", PAPER),
    Item("witness", "Measurements", "The clocks beside those of NVBench and pyperf", PAPER),
    Item("bounds", "Bounds", "Bytes a second of every lookup, beside the bound of its own size", PAPER),
    Item("targets", "Bounds", "What this study set out to reach", PAPER),
    Item("advice", "Findings", "What to write", PAPER),
    Item("environment", "Provenance", "Machine, software and settings", READ),
    Item("status", "Provenance", "What was measured, skipped or failed, and why", READ),
    Item("variants", "Provenance", "The numbers that name variants in the table of samples", CSV),
    Item("measurements", "Provenance", "Every sample", CSV),
)

FIGURES = (
    Item("headline", "Findings", "The question's run: published, measured, extrapolated", DRAWN),
    Item("time", "Findings", "Time per minibatch against minibatch size", DRAWN),
    Item("speedup", "Findings", "Speed-up of CuPy over NumPy against minibatch size", DRAWN),
    Item("clocks", "Measurements", "What each clock says of the same call", DRAWN),
    Item("spread", "Measurements", "Samples by invocation", DRAWN),
    Item("ladder", "Ladder", "What each cause costs, on NumPy and on CuPy", DRAWN),
    Item("ledger", "Ledger", "What one call asks of the GPU and its driver", DRAWN),
    Item("prediction", "Model", "Predicted against measured", DRAWN),
    Item("training", "Training", "What the gather is worth in a step of training", DRAWN),
    Item("bounds", "Bounds", "How much of the bound each lookup reaches", DRAWN),
    Item("boundary", "Transfers", "Where the dense one-hot matrix no longer fits", DRAWN),
)

DRAWN_TABLES = (
    *("summary", "speedup", "crossover", "headline", "limits", "status", "variants", "measurements"),
    *("ladder", "prediction", "ledger", "training", "bounds", "boundary"),
)
"""Tables that the figures read, as CSV; see ``frames.SCHEMA``."""

IN_REPORT_TABLES = tuple(item for item in TABLES if item.name != "measurements")


def paths(folder: str, items: tuple[Item, ...]) -> list[str]:
    """Return every file of the items below a folder."""
    return [f"{folder}/{item.name}.{ending}" for item in items for ending in item.formats]
