"""Every error a user of morphspark can meet.

Each class also inherits the built-in exception a Python user would reach for, so `except ValueError`
around a bad batch works without importing anything from here. Messages name what is wrong, where,
what was expected, and what to do.
"""

import difflib
from collections.abc import Iterable


class MorphsparkError(Exception):
    """Base of all errors raised by morphspark."""


class TraceError(MorphsparkError, TypeError):
    """A transaction function can't become a program: raised when the app is built."""


class SchemaError(MorphsparkError, ValueError):
    """A batch or an initial table has not the columns or types that the app needs."""


class ConfigError(MorphsparkError, ValueError):
    """A setting has a value that is not understood."""


class EpochError(MorphsparkError, ValueError):
    """An epoch arrived that can't run now (not the next one, wrong query, …)."""


class LateError(MorphsparkError, ValueError):
    """`App(late="fail")` and the epoch holds late events."""


class LimitError(MorphsparkError, MemoryError):
    """A stated limit (rows, string bytes, state bytes) would be exceeded; nothing was changed."""


class ClosedError(MorphsparkError, RuntimeError):
    """The engine is closed, or belongs to another process."""


class StateError(MorphsparkError, OSError):
    """A state directory can't be trusted as it is (damaged, incomplete, of another app, …), or not be known."""


class FencedError(MorphsparkError, RuntimeError):
    """Another writer has taken over the state directory; this engine stopped and changed nothing."""


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """The end of a message about a name that is not known; empty if none is near."""
    near = difflib.get_close_matches(str(given), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
