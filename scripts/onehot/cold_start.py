"""The first call: what a fresh process pays before anything is steady."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from onehot.errors import StudyError
from onehot.variant import Variant

_CHILD = """
import json, sys, time
start = time.perf_counter()
from onehot.cold_start import first_call
from onehot.variant import Variant
json.dump(first_call(Variant(**json.loads(sys.argv[1])), int(sys.argv[2]), start), sys.stdout)
"""

STAGES = ("import_seconds", "context_seconds", "inputs_seconds", "first_call_seconds", "second_call_seconds")


def first_call(variant: Variant, seed: int, start: float) -> dict[str, float]:
    """Return the seconds of each stage of this process up to the second call.

    ``start`` is when Python began it.
    """
    from onehot import clocks
    from onehot.backends import registry as backends
    from onehot.measurement import Stopwatch
    from onehot.preparation import prepare
    from onehot.problem import Problem

    watch = Stopwatch(start)
    backend = backends.load(variant.backend)
    imported = watch.lap()
    backend.probe()
    context = watch.lap()
    backend.set_threads(variant.threads)
    prepared = prepare(backend, Problem(variant, seed), 1)
    inputs = watch.lap() - prepared.first_call_seconds
    second = clocks.latency(prepared.calls, backend.synchronize)
    return dict(zip(STAGES, (imported, context, inputs, prepared.first_call_seconds, second), strict=True))


def cold_start(variant: Variant, seed: int, timeout_seconds: float) -> dict[str, dict[str, float]]:
    """Return the stages of a process with an empty kernel cache, then of one that finds it filled.

    Each runs in a fresh interpreter; the cache is a new folder of CuPy's, and of the driver's, that goes
    afterwards.

    Raises
    ------
    StudyError
        The fresh process failed; its last line of output is given.
    """
    with tempfile.TemporaryDirectory() as folder:
        caches = {
            "CUPY_CACHE_DIR": f"{folder}/cupy",
            "CUDA_CACHE_PATH": f"{folder}/driver",
            "NUMBA_CACHE_DIR": f"{folder}/numba",
        }
        inherited = os.environ.get("PYTHONPATH", "")
        path = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), inherited)))
        environment = {**os.environ, **caches, "PYTHONPATH": path}
        return {state: _fresh(variant, seed, environment, timeout_seconds) for state in ("empty", "warm")}


def _fresh(
    variant: Variant, seed: int, environment: dict[str, str], timeout_seconds: float
) -> dict[str, float]:
    command = [sys.executable, "-c", _CHILD, json.dumps(dataclasses.asdict(variant)), str(seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_seconds)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise StudyError(f"a fresh process ended with status {done.returncode}: {last}")
    stages: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return stages
