"""Records as a job writes them, with planted values."""

import datetime
import json
from pathlib import Path
from typing import Any

from onehot import implementations
from onehot.supervision import write_record

EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def variant(implementation="fancy_index", backend="numpy", minibatch=64, **changes) -> dict[str, Any]:
    entry = implementations.get(implementation, backend)
    values = {
        "geometry": entry.geometry,
        "backend": backend,
        "implementation": implementation,
        "minibatch": minibatch,
        "vocabulary": 50_000,
        "embedding": 300,
        "dtype": "float32",
        "index_dtype": "int64",
        "distribution": "uniform",
        "zipf_exponent": 0.0,
        "layout": "C",
        "threads": 1,
    }
    return values | changes


def provenance(hostname="node1", cpu_model="a CPU", gpu_name=None) -> dict[str, Any]:
    gpu = None if gpu_name is None else {"name": gpu_name}
    return {
        "host": {"hostname": hostname, "cpu_model": cpu_model},
        "gpu": gpu,
        "fingerprint": {"cpu_model": cpu_model, "gpu_name": gpu_name},
        "fingerprint_digest": "0",
        "software": {},
        "settings": {"threads_in_force": 1},
        "git": {},
        "before": {},
        "after": {},
    }


def run(start=0.0, length=1.0) -> dict[str, str]:
    def at(seconds):
        return (EPOCH + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    return {"start_utc": at(start), "end_utc": at(start + length)}


def series(seconds) -> dict[str, Any]:
    return {"seconds": list(seconds), "calls_per_sample": 1, "stopped": "target", "half_width": 0.01}


def measurement(
    implementation="fancy_index",
    backend="numpy",
    minibatch=64,
    invocation=0,
    seconds=(1e-3,),
    clocks=None,
    status="ok",
    reason="",
    start=None,
    length=1.0,
    hostname="node1",
    cpu_model="a CPU",
    gpu_name=None,
    **changes,
) -> dict[str, Any]:
    timed = clocks if clocks is not None else {"latency": seconds, "throughput": seconds}
    return {
        "schema": 1,
        "kind": "measurement",
        "status": status,
        "reason": reason,
        "variant": variant(implementation, backend, minibatch, **changes),
        "invocation": invocation,
        "study": {"code_hash": "abc"},
        "provenance": provenance(hostname, cpu_model, gpu_name),
        "clocks": {name: series(values) for name, values in timed.items()} if status == "ok" else {},
        "run": run(start if start is not None else 0.0, length),
    }


def plan(variants=()) -> dict[str, Any]:
    planned = [{"variant": one, "status": "planned", "reason": ""} for one in variants]
    return {"schema": 1, "kind": "plan", "machine": "test", "variants": planned}


def configuration(**changes) -> dict[str, Any]:
    statistics = {"level": 0.95, "resamples": 200, "implausible": 0.95}
    chosen = {"seed": 1, "statistics": statistics, "invocations": 3, "embedding": [300], "dtype": ["float32"]}
    rest = {"schema": 1, "kind": "configuration", "machine": "test", "hash": "0", "git": {}}
    return {**rest, "configuration": chosen | changes}


def write_frame(folder: Path, variants=()) -> list[Path]:
    """The two records that every machine's folder holds once."""
    return [
        write(folder / "plan.json", plan(variants)),
        write(folder / "configuration.json", configuration()),
    ]


def write(path: Path, record: dict[str, Any]) -> Path:
    write_record(path, record)
    json.loads(path.read_text())
    return path
