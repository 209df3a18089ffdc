"""Spans of a stream: how far a window reaches back, how long a table keeps versions, when triggers fire. Plain data.

A span is counted in the unit of the first order column: microseconds of a timestamp ("5 min"), or its own numbers of
an int64 (300); or it is a number of versions (rows=100), or what a trigger's own window covers.
"""

from __future__ import annotations

import datetime
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import types
from .types import Type

_UNITS_US = {
    ("us", "µs", "microsecond", "microseconds"): 1,
    ("ms", "millisecond", "milliseconds"): 1_000,
    ("s", "sec", "second", "seconds"): 1_000_000,
    ("min", "minute", "minutes"): 60_000_000,
    ("h", "hour", "hours"): 3_600_000_000,
    ("d", "day", "days"): 86_400_000_000,
}
_US = {name: size for names, size in _UNITS_US.items() for name in names}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)\s*")
_INT64_MAX = 2**63 - 1
CLOCKS = {"time": types.TIMESTAMP, "int": types.INT64}


class SpanError(Exception):
    """A span that is none; the text says what would be one."""


@dataclass(frozen=True, slots=True)
class Span:
    unit: str  # time: microseconds; int: as the order column counts; rows: versions; trigger: the trigger's own window
    size: int = 0

    def __str__(self) -> str:
        if self.unit == "time":
            name, size = next((ns[0], us) for ns, us in reversed(_UNITS_US.items()) if self.size % us == 0)
            return f"{self.size // size} {name}"
        return {"int": f"{self.size}", "rows": f"rows={self.size}", "trigger": "w"}[self.unit]

    @property
    def text(self) -> str:
        return f"{self.unit}:{self.size}"

    @staticmethod
    def from_text(text: str) -> Span:
        unit, _, size = text.partition(":")
        return Span(unit, int(size))


def parse_span(given: Any, what: str) -> Span:
    """A duration ("5 min", a timedelta), or a whole number for an int64 order column."""
    if isinstance(given, str) and (match := _DURATION.fullmatch(given.lower())) and match[2] in _US:
        whole, _, part = match[1].partition(".")
        size, rest = divmod(int(whole + part) * _US[match[2]], 10 ** len(part))
        return _positive(Span("time", size), given, what) if not rest else _refuse(given, what)
    if isinstance(given, datetime.timedelta):
        return _positive(Span("time", given // datetime.timedelta(microseconds=1)), given, what)
    if not isinstance(given, bool) and hasattr(given, "__index__"):
        return _positive(Span("int", operator.index(given)), given, what)
    return _refuse(given, what)


def parse_rows(given: Any, what: str) -> Span:
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise SpanError(f"{what}: expected a whole number of versions, such as 100, got {given!r}")
    return _positive(Span("rows", operator.index(given)), given, what)


def _positive(span: Span, given: Any, what: str) -> Span:
    if not 0 < span.size <= _INT64_MAX // 4:
        raise SpanError(f"{what}: {given!r} is not a span; it must be more than nothing, and less than 2^61")
    return span


def _refuse(given: Any, what: str) -> Span:
    raise SpanError(
        f"{what}: expected a duration such as '5 min' ({', '.join(names[0] for names in _UNITS_US)}) where the first "
        f"order column is a timestamp, or a whole number where it is int64; got {given!r}"
    )


def check_clock(span: Span, clock: Type | None, what: str) -> None:
    """Fail unless the order column counts in the span's unit. `clock` is its type; None: there is no order_by."""
    if span.unit not in CLOCKS:
        return
    if clock is None:
        raise SpanError(
            f"{what}: a span of {span} needs to know the time: name the column in App(order_by=…); "
            f"without one only windows by count are possible, over(rows=100)"
        )
    if clock in (types.UNKNOWN, types.NULL) or CLOCKS[span.unit] == clock:
        return
    if clock not in CLOCKS.values():
        raise SpanError(
            f"{what}: the first order column is {clock}; only timestamp and int64 columns tell how long something "
            f"took. Use over(rows=…), or order by such a column"
        )
    wanted = "a duration such as '5 min'" if clock == types.TIMESTAMP else "a whole number, such as 300"
    raise SpanError(f"{what}: the first order column is {clock}, so write {wanted}, not {span}")


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a transaction runs that no event starts."""

    kind: str  # every or session
    period: Span  # of every; the gap of a session
    window: Span  # of every; of a session its gap, as its window is as long as it is
    each: str  # a table: one firing per row; empty: one

    @property
    def spans(self) -> tuple[Span, ...]:
        return (self.period, self.window)

    def to_data(self) -> list[str]:
        return [self.kind, self.period.text, self.window.text, self.each]

    @staticmethod
    def from_data(data: list[str]) -> Trigger:
        kind, period, window, each = data
        return Trigger(kind, Span.from_text(period), Span.from_text(window), each)

    def __str__(self) -> str:
        spans = f"{self.period}, window={self.window}" if self.kind == "every" else f"gap={self.period}"
        return f"{self.kind} {spans}" + (f" each {self.each}" if self.each else "")


@dataclass(frozen=True, slots=True)
class Kept:
    """Which versions of a table's rows outlive their epoch."""

    span: int  # those at most so much older than now; 0: none for their age
    rows: int  # and the last so many of each row
    gaps: tuple[int, ...] = ()  # of each session over the table, in the order of definition
    limit: int = 0  # a session is closed when it is so long; 0: never

    def to_data(self) -> list[Any]:
        return [self.span, self.rows, list(self.gaps), self.limit]

    @staticmethod
    def from_data(data: list[Any]) -> Kept:
        span, rows, gaps, limit = data
        return Kept(span, rows, tuple(gaps), limit)


def kept(retain: Span | None, windows: Iterable[Span], gaps: tuple[int, ...]) -> Kept | None:
    """What a table keeps: `retain`, or as far back as its largest window looks; None: no version."""
    used = list(windows)
    limit = retain.size if retain is not None else max((one.size for one in used if one.unit in CLOCKS), default=0)
    rows = max((one.size for one in used if one.unit == "rows"), default=0)
    span = max([limit, *gaps])
    return Kept(span, rows, gaps, limit) if span or rows else None
