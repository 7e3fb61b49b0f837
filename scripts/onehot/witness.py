"""The same call under somebody else's clock: NVBench on the GPU, pyperf on the CPU.

Both are optional (``cuda-bench``, ``pyperf``). They rotate the same calls on the same inputs; what they
measure is theirs. NVBench's ``cold`` flushes the L2 before each call and its ``batch`` queues many behind a
kernel that holds the stream; pyperf times calls back to back in processes of its own.
"""

import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from onehot import implementations, installation, machine
from onehot.backends import registry as backends
from onehot.backends.base import Backend
from onehot.errors import UnavailableError
from onehot.job import Settings
from onehot.measurement import provenance, state
from onehot.preparation import index_sets, prepare
from onehot.problem import Problem
from onehot.variant import Variant

NVBENCH_SECONDS = 1.5
"""NVBench stops a cold measurement after this, noisy or not."""

BATCH_SECONDS = 0.2

SUMMARIES = {"cold": "nv/cold/time/gpu/mean", "batch": "nv/batch/time/gpu/mean"}
"""NVBench's names of its two GPU times."""

PYPERF = ("--processes", "3", "--values", "5", "--warmups", "1", "--min-time", "0.02")


def witnessed(variant: Variant, settings: Settings, study: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the backend's witness says of a variant: tool, version, and seconds a call.

    Raises
    ------
    UnavailableError
        The witness or the backend is not installed, or the witness gave no time.
    """
    tool, version = installation.WITNESSES[variant.backend], installation.witness(variant.backend)
    if version is None:
        raise UnavailableError(f"{tool} is not installed: pip install {tool}")
    backend = backends.load(variant.backend)
    backend.probe()
    known = provenance(backend, backend.set_threads(variant.threads), Path(study["root"]))
    begin = machine.utc_now()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "witness.json"
        ask = _nvbench if variant.backend == "cupy" else _pyperf
        seconds = ask(backend, variant, settings, path)
    end = machine.utc_now()
    known["after"] = state(backend)
    return {
        "status": "ok",
        "reason": "",
        "tool": tool,
        "version": version,
        "seconds": seconds,
        "provenance": known,
        "run": {"start_utc": begin, "end_utc": end},
    }


def _nvbench(backend: Backend, variant: Variant, settings: Settings, path: Path) -> dict[str, list[float]]:
    """Run one benchmark in this process; NVBench makes its own stream and hands it over with each call."""
    try:
        from cuda import bench
    except Exception as error:  # a binary for another CUDA raises more than ImportError
        raise UnavailableError(f"cuda-bench does not import: {' '.join(str(error).split())[:300]}") from error

    entry = implementations.get(variant.implementation, variant.backend)
    sets = index_sets(entry, variant, settings.index_sets, settings.input_bytes)
    calls = itertools.cycle(prepare(backend, Problem(variant, settings.seed), sets).calls)
    backend.synchronize()
    stream_of = backend.xp.cuda.Stream.from_external

    def run(state: Any) -> None:
        def launch(launched: Any) -> None:
            with stream_of(launched.get_stream()):
                next(calls)()

        state.exec(launch, sync=entry.synchronises)

    benchmark = bench.register(run)
    benchmark.set_name("gather")
    benchmark.set_timeout(NVBENCH_SECONDS)
    benchmark.set_batch_target_time(BATCH_SECONDS)
    bench.run_all_benchmarks(["witness", "--devices", "0", "--json", str(path)])
    return nvbench_seconds(json.loads(path.read_text()), entry.group(variant))


def nvbench_seconds(report: Mapping[str, Any], group: int = 1) -> dict[str, list[float]]:
    """Return NVBench's GPU times from its JSON report, in seconds a minibatch.

    Raises
    ------
    UnavailableError
        NVBench skipped the benchmark, or the report holds no GPU time.
    """
    states = [state for benchmark in report["benchmarks"] for state in benchmark["states"]]
    found: dict[str, list[float]] = {}
    for one in states:
        if one.get("is_skipped"):
            raise UnavailableError(f"NVBench skipped the benchmark: {one.get('skip_reason', 'no reason')}")
        by_tag = {summary["tag"]: summary for summary in one.get("summaries") or ()}
        for name, tag in SUMMARIES.items():
            for data in by_tag.get(tag, {}).get("data", ()):
                if data["name"] == "value":
                    found[name] = [float(data["value"]) / group]
    if not found:
        raise UnavailableError(f"NVBench's report holds none of {', '.join(SUMMARIES.values())}")
    return found


def _pyperf(backend: Backend, variant: Variant, settings: Settings, path: Path) -> dict[str, list[float]]:
    """Let pyperf time the calls in processes of its own; each value that it keeps is one sample."""
    import pyperf

    case = json.dumps({"variant": asdict(variant), "seed": settings.seed, "index_sets": settings.index_sets})
    program = Path(__file__).parents[1] / "witness_pyperf.py"
    found = ("--inherit-environ", "PYTHONPATH")  # pyperf's workers get an environment cut to the bone
    command = [sys.executable, str(program), "--case", case, "--quiet", *found, *PYPERF, "-o", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode or not path.exists():
        raise UnavailableError(f"pyperf gave no result: {' '.join(ended.stderr.split())[-300:]}")
    return {"host": list(pyperf.Benchmark.load(str(path)).get_values())}
