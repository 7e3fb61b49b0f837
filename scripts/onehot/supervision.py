"""One measuring process under a supervisor that survives it.

Whatever becomes of the process, there is a record.

The supervisor imports no array library, takes the machine's lock, and forks. The child imports, measures
and writes its answer to a pipe. A child that is killed, crashes, or never ends becomes a record with that
reason, not a missing file that stops the study.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onehot.errors import StudyError, UnavailableError

LOCK_NAME = "onehot-lookup-benchmark.lock"

END = "\n"
"""Ends a whole answer."""


@dataclass(frozen=True)
class Outcome:
    """What became of a supervised process.

    Attributes
    ----------
    answer : what the function returned; None where it did not return.
    status : ``ok``, ``skipped`` (the backend cannot run here) or ``failed``.
    reason : why it is not ok; empty where it is.
    """

    answer: dict[str, Any] | None
    status: str
    reason: str


@contextlib.contextmanager
def exclusive_machine() -> Iterator[None]:
    """Hold the lock that no two timed jobs of this machine hold at once, whatever started them.

    The kernel drops the lock with its last holder, so a job that is killed leaves nothing behind.
    """
    path = Path(tempfile.gettempdir()) / LOCK_NAME
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with contextlib.suppress(PermissionError):
        os.chmod(path, 0o666)  # shared by every user of the machine, whatever the umask
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def supervised(function: Callable[[], dict[str, Any]], timeout_seconds: float) -> Outcome:
    """Run a function in a child process of its own, alone on the machine, and say what became of it."""
    with exclusive_machine():
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _run_child(function, writing)
        os.close(writing)
        try:
            text, in_time = _read_all(reading, timeout_seconds)
            if not in_time:
                os.kill(child, signal.SIGKILL)
            # A child that has answered is done but for its driver's clean-up, which takes a GPU process 0.2
            # s. It holds the machine's lock until then, so nothing is timed meanwhile, and nobody needs to
            # wait for it here.
            status = 0 if _is_whole(text) else os.waitpid(child, 0)[1]
        except BaseException:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        finally:
            os.close(reading)
    if not in_time:
        return Outcome(
            None, "failed", f"ended after {timeout_seconds:g} s, its time limit (sampling.timeout_seconds)"
        )
    return _outcome(text, status)


def _run_child(function: Callable[[], dict[str, Any]], writing: int) -> None:
    """Run, answer, and leave without the parent's clean-up handlers; never returns, whatever happens."""
    try:
        text = _answer(function)
        with os.fdopen(writing, "w") as pipe:
            pipe.write(text + END)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        # Not sys.exit: an interpreter's shutdown after a poisoned CUDA context can crash and overwrite the
        # answer, and a fork that went on would run its parent's work a second time.
        os._exit(0)


def _answer(function: Callable[[], dict[str, Any]]) -> str:
    try:
        return json.dumps({"answer": function()}, allow_nan=False)
    except UnavailableError as error:
        message = {"status": "skipped", "reason": str(error)}
    except StudyError as error:
        message = {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
    except BaseException as error:  # anything at all becomes a record; the traceback goes to the job's log
        traceback.print_exc()
        text = " ".join(str(error).split())
        message = {"status": "failed", "reason": f"{type(error).__name__}: {text[:500]}"}
    return json.dumps(message)


def _read_all(descriptor: int, timeout_seconds: float) -> tuple[str, bool]:
    deadline = time.monotonic() + timeout_seconds
    pieces: list[bytes] = []
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([descriptor], [], [], left)
        if ready:
            piece = os.read(descriptor, 1 << 20)
            if not piece:
                return b"".join(pieces).decode(), True
            pieces.append(piece)
    return "", False


def _is_whole(text: str) -> bool:
    """Return whether an answer ends as one does; a child that died while writing leaves less."""
    return text.endswith(END)


def _outcome(text: str, status: int) -> Outcome:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        hint = ", as the kernel does when memory runs out" if number == signal.SIGKILL else ""
        return Outcome(
            None, "failed", f"the measuring process was killed by {signal.Signals(number).name}{hint}"
        )
    try:
        message = json.loads(text)
    except json.JSONDecodeError:
        return Outcome(
            None, "failed", f"the measuring process ended with status {status} and no whole answer"
        )
    answer = message.get("answer")
    return Outcome(answer, "ok" if answer is not None else message["status"], message.get("reason", ""))


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record so that the file is whole or absent.

    Written beside its place, flushed to disk, renamed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with partial.open("w") as file:
        json.dump(record, file, allow_nan=False, separators=(",", ":"))
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
