"""Where a job's words go: everything into its log, the study's own errors to the terminal too."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from onehot.errors import StudyError


@contextlib.contextmanager
def job_log(path: str | Path) -> Iterator[None]:
    """Send what this process and its children print to a log file.

    The file descriptors are redirected, not Python's objects: a crash inside a library and the
    interpreter's own last traceback land in the log as well. A StudyError is a message to the user, so the
    terminal shows it at once.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    terminal = os.dup(2)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    try:
        yield
    except StudyError as error:
        print(error, file=sys.stderr)
        os.write(terminal, f"{error}\n".encode())
        sys.exit(1)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.close(terminal)
