"""After a kill -9 the plain command carries on: a lock whose holder is dead is not a lock."""

import fcntl
import os
from pathlib import Path

GUARD = "study.guard"


def remove_stale_locks(state: Path) -> int | None:
    """Remove Snakemake's lock files from its state folder where no living run of this study holds them.

    Snakemake's locks are plain files that a killed run leaves behind. Every run holds a kernel lock on a
    file beside them too, which goes with its process: whoever gets that one knows that the others are
    stale.

    Returns
    -------
    The descriptor that holds the guard for the life of this process, or None where another run is alive; then
    Snakemake's own locks stand and it says so itself.
    """
    state.mkdir(exist_ok=True)
    descriptor = os.open(state / GUARD, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    for lock in (state / "locks").glob("*.lock"):
        lock.unlink(missing_ok=True)
    return descriptor
