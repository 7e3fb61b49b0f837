"""Another benchmark's times: read from its report, asked for real where cheap, beside the clocks."""

import dataclasses

import numpy as np
import pytest
from onehot import explanations, installation, witness
from onehot.backends.numpy_backend import NumpyBackend
from onehot.errors import UnavailableError
from onehot.records import WitnessRecord
from onehot.tables import Rule
from test_explanations import results, variant
from test_measurement import QUICK


def report(**summaries):
    """An NVBench report with the given GPU times, in the structure that NVBench 0.3 writes."""
    made = [
        {"tag": tag, "data": [{"name": "hint", "type": "string", "value": "duration"},
                              {"name": "value", "type": "float64", "value": str(seconds)}]}
        for tag, seconds in summaries.items()
    ]  # fmt: skip
    return {"benchmarks": [{"name": "gather", "states": [{"is_skipped": False, "summaries": made}]}]}


def test_nvbench_times_are_read_by_their_tags_and_shared_among_a_group():
    both = report(
        **{"nv/cold/time/gpu/mean": 8e-6, "nv/batch/time/gpu/mean": 7e-6, "nv/cold/time/cpu/mean": 1}
    )
    assert witness.nvbench_seconds(both) == {"cold": [8e-6], "batch": [7e-6]}
    assert witness.nvbench_seconds(both, group=4) == {"cold": [2e-6], "batch": [1.75e-6]}


def test_a_report_without_a_gpu_time_or_of_a_skipped_benchmark_is_refused():
    with pytest.raises(UnavailableError, match="nv/cold/time/gpu/mean"):
        witness.nvbench_seconds(report())
    skipped = {"benchmarks": [{"states": [{"is_skipped": True, "skip_reason": "too hot"}]}]}
    with pytest.raises(UnavailableError, match="too hot"):
        witness.nvbench_seconds(skipped)


def test_pyperf_times_the_same_calls_in_processes_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(witness, "PYPERF", ("--processes", "1", "--values", "2", "--warmups", "0",
                                            "--loops", "10"))  # fmt: skip
    one = dataclasses.replace(variant("take", "numpy", "corrected", m=64), vocabulary=500)
    seconds = witness._pyperf(NumpyBackend(), one, QUICK, tmp_path / "out.json")
    assert len(seconds["host"]) == 2 and all(value > 0 for value in seconds["host"])


def test_a_witness_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(installation, "witness", lambda backend: None)
    with pytest.raises(UnavailableError, match="pyperf is not installed: pip install pyperf"):
        witness.witnessed(variant("take", "numpy", "corrected"), QUICK, {"root": "."})


def nvbench_record(one, **seconds):
    return WitnessRecord.model_validate(
        {
            "schema": 1,
            "kind": "witness",
            "status": "ok",
            "reason": "",
            "variant": dataclasses.asdict(one),
            "tool": "cuda-bench",
            "version": "0.3.0",
            "seconds": {name: [value] for name, value in seconds.items()},
        }
    )


def test_clocks_stand_beside_the_witness_and_the_host_explains_a_small_minibatch():
    one = variant("take", "cupy", "corrected")
    record = nvbench_record(one, cold=8.3e-6, batch=7e-6)
    clock = {"device_cold": 8.4e-6, "device_hot": 7.05e-6, "throughput": 18e-6, "enqueue": 17e-6}
    samples = {(one, name): [np.full(10, seconds)] * 3 for name, seconds in clock.items()}
    found = dataclasses.replace(results({}), witnesses=[record])
    assert isinstance(found.rule, Rule)
    frame = explanations.witness(found, samples).set_index(["witness", "clock"])
    assert frame["agrees"].to_dict() == {
        ("cold", "device_cold"): "yes", ("batch", "device_hot"): "yes", ("batch", "throughput"): "no",
    }  # fmt: skip
    assert "bound by the host, which queues a call in 17 µs" in frame.loc[("batch", "throughput"), "reason"]
