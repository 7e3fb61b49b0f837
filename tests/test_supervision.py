"""The supervisor: whatever becomes of the measuring process there is an outcome, and no two run at once."""

import json
import multiprocessing
import os
import signal
import time

import pytest
from onehot.errors import UnavailableError, WrongResultError
from onehot.supervision import exclusive_machine, supervised, write_record


def test_an_answer_comes_back():
    assert supervised(lambda: {"x": 1}, 10).answer == {"x": 1}


def test_a_process_killed_for_memory_leaves_an_outcome_that_says_so():
    outcome = supervised(lambda: os.kill(os.getpid(), signal.SIGKILL), 10)
    assert outcome.status == "failed" and "SIGKILL, as the kernel does when memory runs out" in outcome.reason


def test_a_process_that_never_ends_is_ended_at_its_limit():
    outcome = supervised(lambda: time.sleep(60), 0.3)
    assert outcome.status == "failed" and "ended after 0.3 s" in outcome.reason


def test_a_wrong_result_fails_and_an_unavailable_backend_is_skipped():
    def raising(error):
        raise error

    wrong = supervised(lambda: raising(WrongResultError("off by one")), 10)
    missing = supervised(lambda: raising(UnavailableError("no driver")), 10)
    assert (wrong.status, wrong.reason) == ("failed", "WrongResultError: off by one")
    assert (missing.status, missing.reason) == ("skipped", "no driver")


def test_a_crash_keeps_its_type_and_words(capfd):
    outcome = supervised(lambda: 1 / 0, 10)
    assert outcome.reason == "ZeroDivisionError: division by zero"
    assert "Traceback" in capfd.readouterr().err


def test_an_answer_that_is_no_record_fails():
    assert supervised(lambda: {"seconds": float("nan")}, 10).status == "failed"


def _hold(log, tag):
    with exclusive_machine():
        log.put((tag, "in", time.monotonic()))
        time.sleep(0.2)
        log.put((tag, "out", time.monotonic()))


def test_two_timed_jobs_never_hold_the_machine_at_once():
    context = multiprocessing.get_context("fork")
    log = context.Queue()
    workers = [context.Process(target=_hold, args=(log, tag)) for tag in "ab"]
    for worker in workers:
        worker.start()
    events = sorted((log.get(timeout=20) for _ in range(4)), key=lambda event: event[2])
    for worker in workers:
        worker.join()
    assert [kind for _, kind, _ in events] == ["in", "out", "in", "out"]


def test_the_lock_goes_with_a_killed_holder():
    context = multiprocessing.get_context("fork")
    log = context.Queue()
    holder = context.Process(target=_hold, args=(log, "killed"))
    holder.start()
    log.get(timeout=20)
    holder.kill()
    holder.join()
    with exclusive_machine():
        pass


def test_a_record_is_whole_or_absent(tmp_path):
    path = tmp_path / "deep" / "record.json"
    with pytest.raises(ValueError):
        write_record(path, {"seconds": float("nan")})
    assert not path.exists()
    write_record(path, {"a": 1})
    assert json.loads(path.read_text()) == {"a": 1}
