"""The answer's claims, each judged by a rule that is written here and could come out otherwise.

A claim is one function from the study's tables to a ``Judgement``: a verdict of four, and the numbers that
it rests on, in words. The rule stands beside the verdict in the table. Where a table holds nothing that
speaks for or against, the verdict is "no evidence"; nothing is assumed.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

import pandas as pd

from onehot.presentation import NAMES, seconds_text, significant
from onehot.variant import CORRECTED, ITEM_BYTES, PUBLISHED

HOLDS = "holds"
PARTLY = "holds partly"
FAILS = "does not hold"
NOTHING = "no evidence"

QUESTION_MINIBATCH = 2048
GROWING = "growing h by vstack"
DECODING = "the one-hot matrix and its decode"
LOOPS = {PUBLISHED: "published_loop", CORRECTED: "loop_vstack"}

BUSY = 0.5
"""A device that works less than this share of the time is wasted."""

MOST = 0.5
"""More than this share of something is most of it."""

AGREES = 0.1
"""Two clocks that differ by less tell the same story."""

REDUNDANT = 10.0
"""A representation this many times larger than another that says the same is redundant."""


@dataclass(frozen=True)
class Evidence:
    """The tables that claims are judged by; each may be empty."""

    summary: pd.DataFrame = field(default_factory=pd.DataFrame)
    speedup: pd.DataFrame = field(default_factory=pd.DataFrame)
    limits: pd.DataFrame = field(default_factory=pd.DataFrame)
    ladder: pd.DataFrame = field(default_factory=pd.DataFrame)
    ledger: pd.DataFrame = field(default_factory=pd.DataFrame)
    prediction: pd.DataFrame = field(default_factory=pd.DataFrame)

    def limit(self, backend: str, name: str) -> float | None:
        """Return the value of one limit; None where it was not measured."""
        found = _where(self.limits, backend=backend, name=name)
        return float(found["value"].iloc[0]) if len(found) else None


@dataclass(frozen=True)
class Judgement:
    """A verdict and the evidence for it."""

    verdict: str
    evidence: str


@dataclass(frozen=True)
class Claim:
    """One statement of the answer, and the rule that judges it.

    Attributes
    ----------
    name : in short.
    statement : in the answer's sense.
    rule : when it holds, holds partly, does not hold.
    judge : the rule as code.
    """

    name: str
    statement: str
    rule: str
    judge: Callable[[Evidence], Judgement]


CLAIMS: list[Claim] = []


def claim(
    statement: str, rule: str
) -> Callable[[Callable[[Evidence], Judgement]], Callable[[Evidence], Judgement]]:
    """Register the function below as the rule that judges a statement."""

    def register(judge: Callable[[Evidence], Judgement]) -> Callable[[Evidence], Judgement]:
        CLAIMS.append(Claim(judge.__name__, statement, rule, judge))
        return judge

    return register


def judged(evidence: Evidence) -> pd.DataFrame:
    """Return one row a claim: statement, verdict, evidence, rule."""
    rows = [
        {"claim": one.name, "statement": one.statement, **asdict(one.judge(evidence)), "rule": one.rule}
        for one in CLAIMS
    ]
    return pd.DataFrame(rows, columns=["claim", "statement", "verdict", "evidence", "rule"])


def _where(frame: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Return the rows that hold some values; no row where the table lacks a column."""
    for name, value in values.items():
        if name not in frame:
            return frame.iloc[:0]
        frame = frame[frame[name] == value]
    return frame


def _nearest_minibatch(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows at the question's minibatch, or at the nearest one that was measured."""
    if frame.empty:
        return frame
    ratio = frame["minibatch"] / QUESTION_MINIBATCH
    distance = ratio.where(ratio >= 1, 1 / ratio)
    nearest: pd.DataFrame = frame[distance == distance.min()]
    return nearest


def _together(verdicts: list[bool]) -> str:
    """Return ``holds`` where all agree, ``does not hold`` where none does, else ``holds partly``."""
    if not verdicts:
        return NOTHING
    if all(verdicts):
        return HOLDS
    return PARTLY if any(verdicts) else FAILS


def _name(backend: str) -> str:
    return NAMES.get(backend, backend)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


# The claims ---------------------------------------------------------------------------------------


@claim(
    "Launching a kernel a tiny step wastes the GPU.",
    "holds: the GPU works less than half of the published loop's time, and its launches at the cost of a "
    "bare launch take more than half of it. holds partly: the GPU is idle so, but bare launches take "
    "less: the waste is in other work of the host. does not hold: the GPU works at least half of the time",
)
def launch_overhead(evidence: Evidence) -> Judgement:
    """Compare the loop's time with its kernels' device time, and with as many bare launches."""
    loop = _nearest_minibatch(_where(evidence.ladder, backend="cupy", implementation="published_loop"))
    counted = _where(evidence.ledger, backend="cupy", implementation="published_loop")
    counted = counted.dropna(subset=["kernels", "kernel_seconds"]) if len(counted) else counted
    launch = evidence.limit("cupy", "launch")
    if loop.empty or counted.empty or launch is None:
        return Judgement(
            NOTHING, "needs the published loop on CuPy, its ledger by CUPTI, and the cost of a launch"
        )
    seconds, kernels = float(loop["seconds"].iloc[0]), float(counted["kernels"].iloc[0])
    busy, launching = float(counted["kernel_seconds"].iloc[0]) / seconds, kernels * launch / seconds
    text = (
        f"{kernels:.0f} kernels in {seconds_text(seconds)}: the GPU works {_percent(busy)} of the time; as "
        f"bare launches of {seconds_text(launch)} they would take {_percent(launching)} of it"
    )
    if busy >= BUSY:
        return Judgement(FAILS, text)
    return Judgement(HOLDS if launching > MOST else PARTLY, text)


@claim(
    "Growing h by vstack is the disaster, because it copies all rows again at each step.",
    "judged for each backend and geometry by the ladder's values, whose intervals stand there: removing "
    "vstack saves more than removing any other cause, and more than half of what it saves is the time that "
    "its bytes need at the measured copy bandwidth, of the cache where h lay in one. "
    "holds: everywhere; holds partly: somewhere, or the largest cause everywhere but for its calls; does "
    "not hold: nowhere the largest",
)
def growing_by_vstack(evidence: Evidence) -> Judgement:
    """Compare what each rung saves, and what vstack saves with the time of the bytes that it copies."""
    largest, by_bytes, texts = [], [], []
    for (backend, geometry), rungs in _ladders(evidence):
        saved = rungs.dropna(subset=["removed"])
        # removed alone: together with other causes, nobody knows whose the seconds are
        vstack = saved[saved["cause"] == GROWING]
        if vstack.empty:
            continue
        seconds = float(vstack["removed"].iloc[0])
        top = saved.sort_values("removed").iloc[-1]
        share = _bytes_share(evidence, rungs, seconds)
        largest.append(top["cause"] == vstack["cause"].iloc[0])
        by_bytes.append(largest[-1] and share is not None and share > MOST)
        texts.append(
            f"{_name(backend)}, {geometry}: {seconds_text(seconds)}, "
            f"{_percent(float(vstack['share'].iloc[0]))} of the loop"
            + (f", {_percent(share)} of that for bytes" if share is not None else "")
            + ("" if largest[-1] else f" (largest: {top['cause']}, {_percent(float(top['share']))})")
        )
    verdict = _together(by_bytes)
    if verdict == FAILS and any(largest):
        verdict = PARTLY
    return Judgement(verdict, "; ".join(texts) or "needs a ladder down to the list that is stacked once")


def _ladders(evidence: Evidence) -> Iterator[tuple[tuple[str, str], pd.DataFrame]]:
    """Yield the ladder of each backend and geometry at the question's minibatch."""
    if evidence.ladder.empty:
        return
    for (backend, geometry), rungs in evidence.ladder.groupby(["backend", "geometry"], sort=True):
        near = _nearest_minibatch(rungs)
        first = near[near["implementation"] == LOOPS[str(geometry)]]
        if len(first):
            others = [name for name in ("vocabulary", "embedding", "dtype", "distribution") if name in near]
            for name in others:
                near = near[near[name] == first[name].iloc[0]]
            yield (str(backend), str(geometry)), near.drop_duplicates("implementation")


def _bytes_share(evidence: Evidence, rungs: pd.DataFrame, saved: float) -> float | None:
    """Return the time of a growing h's bytes at the copy bandwidth, as a share of what vstack saves.

    Where memory would take longer than all that is saved, h lay in a cache, whose bandwidth then counts.
    """
    one = rungs.iloc[0]
    bandwidth = evidence.limit(str(one["backend"]), "copy_bandwidth")
    if bandwidth is None or saved <= 0:
        return None
    rows = int(one["embedding"] if one["geometry"] == PUBLISHED else one["minibatch"])
    written = (rows * (rows + 1) // 2 - 1) * int(one["embedding"]) * ITEM_BYTES[str(one["dtype"])]
    share = 2 * written / bandwidth / saved
    cached = evidence.limit(str(one["backend"]), "copy_bandwidth_cached")
    return share if share <= 1 or cached is None else 2 * written / cached / saved


@claim(
    "The one-hot matrix is a redundant representation.",
    f"holds: it is at least {REDUNDANT:g} times as large as the indices, and decoding it takes more than "
    "half of decode and gather wherever that was measured. holds partly: it is as large, but decoding "
    "takes less somewhere. does not hold: it is smaller than that",
)
def redundant_one_hot(evidence: Evidence) -> Judgement:
    """Compare sizes, and the gather from the matrix with the gather from the indices that it stands for."""
    costly, texts, factors = [], [], []
    for (backend, geometry), rungs in _ladders(evidence):
        decode = rungs[rungs["cause"] == DECODING].dropna(subset=["removed"])
        if decode.empty:
            continue
        one = decode.iloc[0]
        before = float(one["removed"] + one["seconds"])
        columns = one["embedding"] if geometry == PUBLISHED else one["vocabulary"]
        item = 8 if geometry == PUBLISHED else ITEM_BYTES[str(one["dtype"])]
        factors.append(float(columns * item / ITEM_BYTES[str(one["index_dtype"])]))
        costly.append(float(one["removed"]) > MOST * before)
        texts.append(
            f"{_name(backend)}, {geometry}: {significant(factors[-1])} times the indices' bytes; decoding "
            f"takes {seconds_text(float(one['removed']))} of {seconds_text(before)}"
        )
    if not factors:
        return Judgement(NOTHING, "needs a gather from the matrix and one from the indices")
    if min(factors) < REDUNDANT:
        return Judgement(FAILS, "; ".join(texts))
    return Judgement(HOLDS if all(costly) else PARTLY, "; ".join(texts))


@claim(
    "The loop beats np.dot on the dense one-hot matrix.",
    "judged on NumPy in the corrected geometry, the only one in which the product is defined, at each "
    "minibatch and thread count at which both were measured. holds: the loop is faster at every one, its "
    "interval under the product's; holds partly: at some; does not hold: at none",
)
def loop_beats_dot(evidence: Evidence) -> Judgement:
    """Compare the loop and the product on NumPy, minibatch by minibatch, for each number of threads."""
    synchronised = _where(evidence.summary, backend="numpy", clock="throughput", geometry=CORRECTED)
    loop = _where(synchronised, implementation="loop_vstack")
    product = _where(synchronised, implementation="dense_dot")
    if loop.empty or product.empty:
        return Judgement(NOTHING, "needs loop_vstack and dense_dot on NumPy")
    same = [
        name
        for name in ("minibatch", "vocabulary", "embedding", "dtype", "distribution", "layout")
        if name in loop
    ]
    both = loop.merge(product, on=same, suffixes=("", "_product"))
    both["wins"] = both["high"] < both["low_product"]
    both["loses"] = both["low"] > both["high_product"]
    texts = []
    for threads, group in both.groupby("threads_product", sort=True):
        told = (group["wins"], group["loses"], ~(group["wins"] | group["loses"]))
        won, lost, untold = (sorted(set(group.loc[which, "minibatch"])) for which in told)
        how = "all cores" if threads == 0 else f"{threads} thread" + ("s" if threads != 1 else "")
        near = _nearest_minibatch(group).iloc[0]
        texts.append(
            f"{how}: the loop is faster at m = {_list(won)}, slower at {_list(lost)}, not told apart at "
            f"{_list(untold)}; at m = "
            f"{near['minibatch']} {seconds_text(near['median'])} against "
            f"{seconds_text(near['median_product'])}"
        )
    return Judgement(_together(both["wins"].tolist()), "; ".join(texts) or "no minibatch in common")


def _list(values: list[int]) -> str:
    return ", ".join(f"{value:g}" for value in values) or "none"


@claim(
    "Vectorised indexing wins.",
    "three baselines at the question's minibatch: CuPy's W0[J] against CuPy's loop, against NumPy's loop, "
    "and against NumPy's W0[J]. holds: faster than all three; holds partly: than some; does not hold: "
    "than none. A ratio whose interval holds 1 is not faster",
)
def indexing_wins(evidence: Evidence) -> Judgement:
    """Give the three speed-ups, each with its interval."""
    mine = _where(evidence.speedup, backend="cupy", implementation="fancy_index", clock="throughput")
    mine = _nearest_minibatch(mine)
    found = {
        "CuPy's loop": _where(mine, baseline="loop on the same backend"),
        "NumPy's W0[J]": _where(mine, baseline="NumPy fancy_index"),
        "NumPy's loop": _against_numpy_loop(evidence, mine),
    }
    wins, texts = [], []
    for name, rows in found.items():
        if len(rows):
            row = rows.iloc[0]
            wins.append(row["verdict"] == "faster")
            interval = (
                f" [{significant(row['low'])}, {significant(row['high'])}]"
                if row["low"] == row["low"]
                else ""
            )
            texts.append(f"{significant(row['speedup'])}x{interval} against {name}")
    return Judgement(_together(wins), "; ".join(texts) or "needs fancy_index on CuPy and a baseline")


def _against_numpy_loop(evidence: Evidence, mine: pd.DataFrame) -> pd.DataFrame:
    """Return the ratio of NumPy's loop to CuPy's lookup, with the widest interval that both medians allow."""
    numpy_loop = _where(evidence.summary, backend="numpy", implementation="loop_vstack", clock="throughput")
    cupy_row = _where(evidence.summary, backend="cupy", implementation="fancy_index", clock="throughput")
    if mine.empty:
        return mine
    minibatch = mine["minibatch"].iloc[0]
    loop, lookup = _where(numpy_loop, minibatch=minibatch), _where(cupy_row, minibatch=minibatch)
    if loop.empty or lookup.empty:
        return mine.iloc[:0]
    low = float(loop["low"].iloc[0] / lookup["high"].iloc[0])
    high = float(loop["high"].iloc[0] / lookup["low"].iloc[0])
    verdict = "faster" if low > 1 else "slower" if high < 1 else "inconclusive"
    ratio = float(loop["median"].iloc[0] / lookup["median"].iloc[0])
    return pd.DataFrame([{"speedup": ratio, "low": low, "high": high, "verdict": verdict}])


@claim(
    "The published fast timing is right though it does not synchronise.",
    "holds: at the question's minibatch the host's time of W0[J] and the synchronised time of many calls "
    f"differ by less than {_percent(AGREES)}; holds partly: by less than a factor of two; does not hold: "
    "by more. The evidence says from which minibatch on such a clock misleads",
)
def unsynchronised_timing(evidence: Evidence) -> Judgement:
    """Compare the enqueue clock with the throughput clock of CuPy's lookup."""
    lookup = _where(evidence.summary, backend="cupy", implementation="fancy_index")
    clocks = [_where(lookup, clock=name) for name in ("enqueue", "throughput")]
    if any(one.empty for one in clocks):
        return Judgement(NOTHING, "needs both clocks of fancy_index on CuPy")
    same = [
        name for name in clocks[0].columns if name in ("minibatch", "vocabulary", "distribution", "dtype")
    ]
    both = clocks[0].merge(clocks[1], on=same, suffixes=("", "_throughput"))
    if both.empty:
        return Judgement(NOTHING, "no minibatch has both clocks")
    both["factor"] = both["median_throughput"] / both["median"]
    near = _nearest_minibatch(both).iloc[0]
    factor = float(near["factor"])
    misled = sorted(both.loc[both["factor"] > 2, "minibatch"])
    text = (
        f"at m = {near['minibatch']:g} the host says {seconds_text(near['median'])} a call, the "
        f"synchronised clock {seconds_text(near['median_throughput'])}; the largest factor is "
        f"{significant(float(both['factor'].max()))}"
        + (f", over 2 from m = {misled[0]:g} on" if misled else "")
    )
    off = max(factor, 1 / factor)
    return Judgement(HOLDS if off < 1 + AGREES else PARTLY if off < 2 else FAILS, text)
