"""The question's whole run, for real: every minibatch of all its epochs, once."""

import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onehot import clocks, implementations, machine
from onehot.backends import registry as backends
from onehot.errors import StudyError
from onehot.job import Settings
from onehot.measurement import provenance, state
from onehot.preparation import prepare
from onehot.problem import Problem
from onehot.variant import Variant

PROGRESS_SECONDS = 5.0


def full_run(
    variant: Variant, minibatches: int, settings: Settings, study: Mapping[str, Any]
) -> dict[str, Any]:
    """Time all minibatches back to back with one synchronisation at the end, as the question's loop runs.

    The time of every tenth of the run is kept too, each with a synchronisation of its own, so that a drift
    shows.
    """
    entry = implementations.get(variant.implementation, variant.backend)
    if entry.grouped:
        raise StudyError(
            f"{entry.name} serves {entry.group(variant)} minibatches a call; a full run counts single ones"
        )
    backend = backends.load(variant.backend)
    backend.probe()
    threads = backend.set_threads(variant.threads)
    known = provenance(backend, threads, Path(study["root"]))
    prepared = prepare(backend, Problem(variant, settings.seed), settings.index_sets)
    rotation = clocks.Rotation(prepared.calls)
    clocks.latency(rotation.take(1), backend.synchronize)
    begin = machine.utc_now()
    marks = [0.0]
    tenths = [minibatches * tenth // 10 for tenth in range(11)]
    backend.synchronize()
    start = time.perf_counter()
    for low, high in itertools.pairwise(tenths):
        for call in rotation.take(high - low):
            call()
        backend.synchronize()
        marks.append(time.perf_counter() - start)
    end = machine.utc_now()
    known["after"] = state(backend)
    return {
        "status": "ok",
        "reason": "",
        "minibatches": minibatches,
        "seconds": marks[-1],
        "seconds_at_tenths": marks[1:],
        "provenance": known,
        "run": {"start_utc": begin, "end_utc": end},
    }
