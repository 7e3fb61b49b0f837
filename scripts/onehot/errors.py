"""Errors that a user of the study meets: each names what was found, what is allowed and what to do."""

import difflib
from collections.abc import Iterable


class StudyError(Exception):
    """Base of every error that the study raises on purpose."""


class ConfigurationError(StudyError):
    """The configuration names an unknown key, or a value that is not allowed."""


class RecordError(StudyError):
    """A record file is truncated, foreign, or holds an impossible value."""


class ProblemError(StudyError):
    """A problem whose precondition does not hold: a bad index, a row that is not one-hot."""


class WrongResultError(StudyError):
    """An implementation whose result differs from the reference; it is never timed."""


class UnavailableError(StudyError):
    """A backend that cannot run here; the message is the reason that the status table shows."""


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return a hint such as ``; did you mean 'take'?``, or nothing where no allowed name is near."""
    close = difflib.get_close_matches(name, list(allowed), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def one_line(error: BaseException) -> str:
    """Return the class and the words of an error, at most 300 characters, without line breaks."""
    return ": ".join(filter(None, (type(error).__name__, " ".join(str(error).split()))))[:300]
