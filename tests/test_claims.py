"""Every claim can come out each way: its rule is fed results that say so, and the opposite."""

import dataclasses

import pandas as pd
import pytest
from onehot import claims
from onehot.claims import FAILS, HOLDS, NOTHING, PARTLY, Evidence
from onehot.implementations.ladder import LADDERS
from onehot.variant import CORRECTED, PUBLISHED, Variant

CAUSES = {name: cause for rungs in LADDERS.values() for name, cause in rungs}


def factors(implementation, backend, geometry, m=2048, threads=1):
    return dataclasses.asdict(
        Variant(
            geometry,
            backend,
            implementation,
            m,
            50_000,
            300,
            "float32",
            "int64",
            "uniform",
            0.0,
            "C",
            threads,
        )
    )


def ladder(backend, geometry, seconds):
    """Rungs with planted times, from the loop down."""
    rows, above, whole = [], None, None
    for name, time in seconds.items():
        whole = time if whole is None else whole
        removed = above - time if above is not None else float("nan")
        rows.append(
            {
                **factors(name, backend, geometry), "cause": CAUSES[name], "seconds": time,
                "removed": removed, "share": removed / whole,
            }
        )  # fmt: skip
        above = time
    return pd.DataFrame(rows)


def limits(**values):
    rows = [{"backend": on, "name": name, "value": value} for name, (on, value) in values.items()]
    return pd.DataFrame(rows)


def summary(*rows):
    return pd.DataFrame(
        [
            {**factors(name, backend, CORRECTED, m, threads), "clock": clock, "median": median,
             "low": 0.99 * median, "high": 1.01 * median}
            for name, backend, m, threads, clock, median in rows
        ]
    )  # fmt: skip


def judge(name, evidence):
    return next(claim for claim in claims.CLAIMS if claim.name == name).judge(evidence)


def test_six_claims_are_judged_each_with_its_rule():
    frame = claims.judged(Evidence())
    assert len(frame) == 6
    assert set(frame["verdict"]) == {NOTHING}
    assert frame["rule"].str.contains("holds").all()
    assert frame["evidence"].str.len().gt(10).all()


@pytest.mark.parametrize(
    ("seconds", "device_seconds", "launch", "verdict"),
    [
        (0.0675, 0.005, 4e-6, PARTLY),  # the H200: idle, but bare launches explain a tenth
        (0.0100, 0.002, 4e-6, HOLDS),
        (0.0100, 0.009, 4e-6, FAILS),
    ],
)
def test_launch_overhead(seconds, device_seconds, launch, verdict):
    counted = pd.DataFrame(
        [{**factors("published_loop", "cupy", PUBLISHED), "kernels": 1797, "kernel_seconds": device_seconds}]
    )
    evidence = Evidence(
        ladder=ladder("cupy", PUBLISHED, {"published_loop": seconds}),
        ledger=counted,
        limits=limits(launch=("cupy", launch)),
    )
    found = judge("launch_overhead", evidence)
    assert found.verdict == verdict
    assert "1797 kernels" in found.evidence


def test_launch_overhead_needs_a_ledger_that_counted_kernels():
    uncounted = pd.DataFrame(
        [{**factors("published_loop", "cupy", PUBLISHED), "kernels": float("nan"), "kernel_seconds": None}]
    )
    evidence = Evidence(
        ladder=ladder("cupy", PUBLISHED, {"published_loop": 1.0}),
        ledger=uncounted,
        limits=limits(launch=("cupy", 4e-6)),
    )
    assert judge("launch_overhead", evidence).verdict == NOTHING


GROWTH = ("published_loop", "rung_no_any", "rung_argmax_once", "rung_host_indices", "rung_list_stack")


@pytest.mark.parametrize(
    ("times", "bandwidth", "verdict"),
    [
        ((10e-3, 9e-3, 8e-3, 7.5e-3, 1e-3), 108.4e6 / 5e-3, HOLDS),  # its bytes take 5 of 6.5 ms
        ((10e-3, 9e-3, 8e-3, 7.5e-3, 1e-3), 4e12, PARTLY),  # the largest, but for its calls
        ((67.5e-3, 39.8e-3, 28.2e-3, 16.5e-3, 4.4e-3), 4e12, FAILS),  # the H200: any() costs more
    ],
)
def test_growing_by_vstack(times, bandwidth, verdict):
    evidence = Evidence(
        ladder=ladder("cupy", PUBLISHED, dict(zip(GROWTH, times, strict=True))),
        limits=limits(copy_bandwidth=("cupy", bandwidth)),
    )
    found = judge("growing_by_vstack", evidence)
    assert found.verdict == verdict
    assert "for bytes" in found.evidence


def test_growing_by_vstack_holds_partly_where_one_backend_says_so():
    on_numpy = ladder("numpy", PUBLISHED, dict(zip(GROWTH, (10e-3, 9e-3, 8e-3, 7.9e-3, 1e-3), strict=True)))
    on_cupy = ladder("cupy", PUBLISHED, dict(zip(GROWTH, (60e-3, 20e-3, 9e-3, 8e-3, 1e-3), strict=True)))
    evidence = Evidence(
        ladder=pd.concat([on_numpy, on_cupy]),
        limits=pd.DataFrame(
            [
                {"backend": "numpy", "name": "copy_bandwidth", "value": 1.5e10},
                {"backend": "cupy", "name": "copy_bandwidth", "value": 4e12},
            ]
        ),
    )
    found = judge("growing_by_vstack", evidence)
    assert found.verdict == PARTLY
    assert "largest: asking h.any()" in found.evidence


@pytest.mark.parametrize(("gather", "verdict"), [(20e-6, HOLDS), (180e-6, PARTLY)])
def test_redundant_one_hot(gather, verdict):
    evidence = Evidence(
        ladder=ladder("cupy", CORRECTED, {"loop_vstack": 1.0, "argmax_take": 200e-6, "fancy_index": gather})
    )
    found = judge("redundant_one_hot", evidence)
    assert found.verdict == verdict
    assert "times the indices' bytes" in found.evidence


def test_a_one_hot_matrix_of_few_columns_is_not_redundant():
    rungs = ladder("numpy", CORRECTED, {"loop_vstack": 1.0, "argmax_take": 2e-4, "fancy_index": 1e-5})
    rungs["vocabulary"] = 8
    assert judge("redundant_one_hot", Evidence(ladder=rungs)).verdict == FAILS


@pytest.mark.parametrize(
    ("products", "verdict"),
    [((1.0, 1.0), HOLDS), ((0.001, 1.0), PARTLY), ((0.001, 0.001), FAILS), ((0.3, 0.3), FAILS)],
)
def test_loop_beats_dot(products, verdict):
    one_thread, all_cores = products
    frame = summary(
        ("loop_vstack", "numpy", 2048, 1, "throughput", 0.3),
        ("dense_dot", "numpy", 2048, 1, "throughput", one_thread),
        ("dense_dot", "numpy", 2048, 0, "throughput", all_cores),
        ("dense_dot", "cupy", 2048, 1, "throughput", 1e-9),
    )
    found = judge("loop_beats_dot", Evidence(summary=frame))
    assert found.verdict == verdict
    assert "all cores" in found.evidence


def speedup(baseline, value, low, verdict):
    return {
        **factors("fancy_index", "cupy", CORRECTED), "clock": "throughput", "baseline": baseline,
        "speedup": value, "low": low, "high": 1.1 * value, "verdict": verdict,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lookup", "over_loop", "over_numpy", "verdict"),
    [
        (20e-6, "faster", "faster", HOLDS),
        (20e-6, "faster", "inconclusive", PARTLY),
        (9.0, "slower", "slower", FAILS),
    ],
)
def test_indexing_wins(lookup, over_loop, over_numpy, verdict):
    ratios = pd.DataFrame(
        [
            speedup("loop on the same backend", 2000.0, 1900.0, over_loop),
            speedup("NumPy fancy_index", 15.0, 14.0, over_numpy),
        ]
    )
    times = summary(
        ("loop_vstack", "numpy", 2048, 1, "throughput", 0.3),
        ("fancy_index", "cupy", 2048, 1, "throughput", lookup),
    )
    found = judge("indexing_wins", Evidence(speedup=ratios, summary=times))
    assert found.verdict == verdict
    assert found.evidence.count("against") == 3


@pytest.mark.parametrize(("synchronised", "verdict"), [(18.4e-6, HOLDS), (27e-6, PARTLY), (232e-6, FAILS)])
def test_unsynchronised_timing(synchronised, verdict):
    frame = summary(
        ("fancy_index", "cupy", 2048, 1, "enqueue", 18e-6),
        ("fancy_index", "cupy", 2048, 1, "throughput", synchronised),
        ("fancy_index", "cupy", 131072, 1, "enqueue", 18e-6),
        ("fancy_index", "cupy", 131072, 1, "throughput", 232e-6),
    )
    found = judge("unsynchronised_timing", Evidence(summary=frame))
    assert found.verdict == verdict
    assert "over 2 from m = " in found.evidence


def test_the_nearest_minibatch_stands_in_for_the_questions():
    frame = summary(
        ("fancy_index", "cupy", 1024, 1, "enqueue", 18e-6),
        ("fancy_index", "cupy", 1024, 1, "throughput", 18e-6),
    )
    assert "at m = 1024" in judge("unsynchronised_timing", Evidence(summary=frame)).evidence


def test_a_cause_that_was_removed_together_with_others_is_no_evidence():
    rungs = ladder("numpy", CORRECTED, {"loop_vstack": 1.0, "fancy_index": 1e-5})
    rungs["cause"] = ["as published", f"{claims.GROWING} + {claims.DECODING}"]
    for name in ("growing_by_vstack", "redundant_one_hot"):
        assert judge(name, Evidence(ladder=rungs)).verdict == NOTHING
