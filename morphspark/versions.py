"""The oracle's windows and triggers, in obvious Python: lists of versions, looked through from end to end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .bind import BoundProgram, BoundTransaction
from .program import TableSpec
from .spans import Kept, Span

Key = tuple[Any, ...]
BEFORE_ALL_TIME = -(2**63)  # when a call happens that no event came before


@dataclass(frozen=True)
class Version:
    """A row as one transaction left it."""

    sequence: int  # of the transaction: what orders versions of different rows
    time: int  # effective timestamp of the transaction
    row: tuple[Any, ...]
    firsts: tuple[int, ...]  # when the session began that it belongs to, for each session over the table


class Versions:
    """The visible versions of one table's rows, the oldest first."""

    def __init__(self, kept: Kept, rows: dict[Key, list[Version]] | None = None):
        self.kept = kept
        self.rows = rows or {}

    def copy(self) -> Versions:
        return Versions(self.kept, {key: list(versions) for key, versions in self.rows.items()})

    def add(self, key: Key, sequence: int, time: int, row: tuple[Any, ...]) -> None:
        versions = self.rows.setdefault(key, [])
        last = versions[-1] if versions else None
        firsts = tuple(
            last.firsts[i] if last is not None and time < self.deadline(i, last) else time
            for i in range(len(self.kept.gaps))
        )
        versions.append(Version(sequence, time, row, firsts))

    def hide(self, key: Key) -> None:
        self.rows.pop(key, None)

    def deadline(self, session: int, last: Version) -> int:
        """When the session fires whose last version this is."""
        ends = last.time + self.kept.gaps[session]
        return min(ends, last.firsts[session] + self.kept.limit) if self.kept.limit else ends

    def ends(self, session: int, versions: list[Version]) -> Iterator[int]:
        """When each session of a row fires, as far as its versions are kept."""
        for one, following in zip(versions, [*versions[1:], None], strict=True):
            if following is None or following.firsts[session] != one.firsts[session]:
                yield self.deadline(session, one)

    def collect(self, now: int | None) -> None:
        """Forget what no window can reach any more."""
        for key, versions in list(self.rows.items()):
            young = sum(now is None or one.time >= now - self.kept.span for one in versions) if self.kept.span else 0
            self.rows[key] = versions[len(versions) - max(young, min(self.kept.rows, len(versions))) :]
            if not self.rows[key]:
                del self.rows[key]

    def window(self, keys: list[Key], start: int | None, now: int, rows: int) -> list[tuple[Any, ...]]:
        """Rows in a window, in the order in which transactions left them: by time, or (start is None) by count."""
        distinct = list(dict.fromkeys(keys))
        found = [(one.sequence, rank, one) for rank, key in enumerate(distinct) for one in self.rows.get(key, [])]
        found.sort(key=lambda entry: entry[:2])
        if start is None:
            return [one.row for _, _, one in found[-rows:]]
        return [one.row for _, _, one in found if start <= one.time < now]

    def newest_before(self, key: Key, time: int) -> Version | None:
        return next((one for one in reversed(self.rows[key]) if one.time < time), None)


def window_start(span: Span, now: int, start: Any) -> int | None:
    """Where a window begins; None: it goes by count. `start` is that of the trigger's own window."""
    if span.unit == "rows":
        return None
    return start if span.unit == "trigger" else now - span.size


class Triggers:
    """When which trigger fires, and for whom. `clock` is the time up to which all have fired."""

    def __init__(self, bound: BoundProgram, versions: dict[str, Versions], clock: int | None, last_event: int | None):
        self._bound = bound
        self._versions = versions
        self.clock = clock
        self.last_event = last_event  # effective timestamp of the newest event

    def due(self, until: int) -> Iterator[tuple[BoundTransaction, dict[str, Any], int]]:
        """Firings up to a time, one after the other: each may change what the next ones find."""
        if self.clock is None:  # nothing was before
            self.clock = until
        while (boundary := self._next(until)) is not None:
            for one in self._bound.transactions:
                if one.transaction.trigger is not None:
                    for columns in self._firings(one, boundary):
                        yield one, columns, boundary
            self.clock = boundary
        self.clock = max(self.clock, until)

    def _next(self, until: int) -> int | None:
        found = [self._next_of(one, until) for one in self._bound.transactions if one.transaction.trigger is not None]
        return min((one for one in found if one is not None and one <= until), default=None)

    def _next_of(self, one: BoundTransaction, until: int) -> int | None:
        trigger = one.transaction.trigger
        assert trigger is not None and self.clock is not None
        if trigger.kind == "session":
            versions, session = self._versions[trigger.each], self._session(one)
            ends = (end for row in versions.rows.values() for end in versions.ends(session, row))
            return min((end for end in ends if end > self.clock), default=None)
        boundary = (self.clock // trigger.period.size + 1) * trigger.period.size
        while (newest := self._newest(trigger.each)) is not None and boundary <= min(
            newest + trigger.window.size, until
        ):
            if self._firings(one, boundary):
                return boundary
            boundary += trigger.period.size
        return None

    def _newest(self, each: str) -> int | None:
        if not each:
            return self.last_event
        return max((row[-1].time for row in self._versions[each].rows.values()), default=None)

    def _session(self, one: BoundTransaction) -> int:
        """Which of the sessions over its table it is."""
        trigger = one.transaction.trigger
        assert trigger is not None
        named = [(other.transaction.name, other.transaction.trigger) for other in self._bound.transactions]
        same = [name for name, t in named if t is not None and (t.kind, t.each) == (trigger.kind, trigger.each)]
        return same.index(one.transaction.name)

    def _firings(self, one: BoundTransaction, boundary: int) -> list[dict[str, Any]]:
        """The columns of each firing at a boundary, in the order of keys."""
        trigger = one.transaction.trigger
        assert trigger is not None
        names = list(one.events)
        start = boundary - trigger.window.size
        if not trigger.each:
            holds = boundary % trigger.period.size == 0 and self.last_event is not None and self.last_event >= start
            return [dict(zip(names, (start, boundary), strict=True))] if holds else []
        versions = self._versions[trigger.each]
        found = []
        for key in sorted(versions.rows, key=_key_order):
            last = versions.newest_before(key, boundary)
            if last is None:
                continue
            if trigger.kind == "session":
                session = self._session(one)
                if versions.deadline(session, last) == boundary:
                    found.append((last.firsts[session], boundary, *key))
            elif boundary % trigger.period.size == 0 and last.time >= start:
                found.append((start, boundary, *key))
        return [dict(zip(names, row, strict=True)) for row in found]


def _key_order(key: Key) -> tuple[Any, ...]:
    return tuple(part.encode() if isinstance(part, str) else part for part in key)


def versions_of(tables: tuple[TableSpec, ...]) -> dict[str, Versions]:
    return {table.name: Versions(table.kept) for table in tables if table.kept is not None}
