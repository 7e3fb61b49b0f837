"""What this machine can run, found out by running one kernel on each backend."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onehot import machine
from onehot.backends import registry as backends
from onehot.measurement import provenance


def probe(name: str, study: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a working backend says of itself and of the machine.

    Raises
    ------
    UnavailableError
        The backend cannot run here; the message is the reason.
    """
    begin = machine.utc_now()
    backend = backends.load(name)
    backend.probe()
    threads = backend.set_threads(1)
    return {
        "status": "ok",
        "reason": "",
        "free_bytes": backend.free_bytes(),
        "cores": len(os.sched_getaffinity(0)),
        "python": sys.version.split()[0],
        "provenance": provenance(backend, threads, Path(study["root"])),
        "run": {"start_utc": begin, "end_utc": machine.utc_now()},
    }
