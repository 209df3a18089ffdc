"""Recovery: a core as some record left it. The newest snapshot that is whole, then the records after it, in order.

A delta is applied. A command is executed again, through the engine's own strategy, and must come to the same counts.
Files are read, checked and decoded in threads, a few ahead of the core, which takes them in one by one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from ..arrow_values import to_array
from ..bind import BoundProgram, bind
from ..columns import Batch, one_chunk
from ..config import Config
from ..core import Core, Moment, Progress, rows_schema
from ..draws import run_of
from ..errors import LimitError, SchemaError, StateError
from ..program import Program, TableSpec
from ..types import Type
from .files import DataFile, Section, read_section
from .history import History, Start
from .records import Advance, Bind, Call, Epoch, Load, Record, Snapshot
from .store import Store
from .workers import Task, Workers

AHEAD = 8  # sections that are read before the core wants them
EVOLVED_ROWS = 1 << 16  # that are taken over at a time
EVENTS, ORDER = "events", "order"  # the sections of a command
MakeCore = Callable[[tuple[TableSpec, ...], Config], Core]

log = logging.getLogger(__name__)


@dataclass
class Recovered:
    core: Core
    bind: Bind
    progress: Progress
    types: Mapping[str, Type]


def recover(
    history: History, number: int, make_core: MakeCore, config: Config, only: Collection[str] | None = None
) -> Recovered:
    """The state after a record. `only`: tables of interest; others may stay empty."""
    first_error: StateError | None = None
    for start in history.starts(number):
        try:
            return _recover_from(history, start, number, make_core, config, only)
        except StateError as error:
            first_error = first_error or error
            if start.snapshot is None:
                break
            # The log says the same as the snapshot, only slower.
            log.warning("a snapshot can't be used, so an older one is looked for: %s", error)
    assert first_error is not None
    raise first_error


def _recover_from(
    history: History,
    start: Start,
    number: int,
    make_core: MakeCore,
    config: Config,
    only: Collection[str] | None,
) -> Recovered:
    records = [one for one in history.after(start.first - 1) if one.number <= number]
    snapshot = start.snapshot
    state = Recovered(make_core(start.bind.program.tables, config), start.bind, Progress(), {})
    if snapshot is not None:
        state.progress, state.types = snapshot.progress, snapshot.types
    try:
        begin = [] if snapshot is None else [snapshot]
        _replay(state, history.store, [*begin, *_changing(records)], make_core, config, only)
    except BaseException:
        state.core.close()
        raise
    return state


def replay(state: Recovered, store: Store, records: Iterable[Record], make_core: MakeCore, config: Config) -> None:
    """Bring a state further by the records that follow it."""
    _replay(state, store, _changing(records), make_core, config, None)


def _changing(records: Iterable[Record]) -> list[Any]:
    """What changes the state; a snapshot only repeats it."""
    return [one.body for one in records if not isinstance(one.body, Snapshot)]


def _replay(
    state: Recovered,
    store: Store,
    bodies: list[Any],
    make_core: MakeCore,
    config: Config,
    only: Collection[str] | None,
) -> None:
    if any(isinstance(one, Epoch) and one.mode == "command" for one in bodies):
        only = None  # a transaction may need any table
    steps = _Replay(state, store, make_core, config)
    readers = Workers("morphspark-recovery", config.thread_count)
    try:
        for body, sections in _read_ahead(store, readers, bodies, only):
            steps.add(body, sections)
    finally:
        readers.close()


Sections = Iterator[tuple[DataFile, Section, pa.Table]]


def _read_ahead(
    store: Store, readers: Workers, bodies: list[Any], only: Collection[str] | None
) -> Iterator[tuple[Any, Sections]]:
    """Each body with the rows it changes, of which the next few are being read in other threads."""
    rest = (one for body in bodies for one in changed_sections(body, only))
    waiting: deque[tuple[DataFile, Section, Task[pa.Table]]] = deque()

    def fill() -> None:
        for file, section in rest:
            waiting.append((file, section, readers.do(partial(read_section, store, file, section))))
            if len(waiting) >= AHEAD:
                return

    def take(count: int) -> Sections:
        for _ in range(count):
            fill()
            file, section, rows = waiting.popleft()
            yield file, section, rows.result()

    for body in bodies:
        yield body, take(sum(1 for _ in changed_sections(body, only)))


def changed_sections(body: Any, only: Collection[str] | None) -> Iterator[tuple[DataFile, Section]]:
    """The rows that a record brings, of these tables or of all."""
    rows = isinstance(body, Load | Call | Advance | Snapshot)
    file = body.log if isinstance(body, Epoch) else body.rows if rows else None
    for section in () if file is None else file.sections:
        if only is None or section.name in only:
            yield file, section


class _Replay:
    """Brings a recovered state from record to record."""

    def __init__(self, state: Recovered, store: Store, make_core: MakeCore, config: Config):
        self._state, self._store = state, store
        self._make_core, self._config = make_core, config
        self._bound: BoundProgram | None = None

    def add(self, body: Any, sections: Sections) -> None:
        state = self._state
        if isinstance(body, Bind):
            evolved = evolve_core(state.core, state.bind.program, body.program, self._make_core, self._config)
            state.core, state.bind, self._bound = evolved, body, None
        elif isinstance(body, Epoch):
            if body.mode == "command":
                self._execute(body, {section.name: rows for _, section, rows in sections})
            else:
                self._apply(sections)
            state.progress, state.types = body.progress, body.types
        else:
            self._apply(sections)
            if isinstance(body, Advance):
                state.progress = body.progress
            elif isinstance(body, Call):
                state.progress = replace(state.progress, calls=state.progress.calls + 1)

    def _apply(self, sections: Sections) -> None:
        tables = {spec.name: spec for spec in self._state.bind.program.tables}
        for file, section, rows in sections:
            if section.name not in tables:
                raise StateError(f"{file.name} has rows of a table {section.name!r}, which the app does not have")
            try:
                for batch in rows.combine_chunks().to_batches():
                    self._state.core.apply(tables[section.name], batch)
            except SchemaError as error:
                raise StateError(
                    f"{self._store.location}/{file.name}: {error}; it was not written by this app"
                ) from None

    def _execute(self, body: Epoch, columns: Mapping[str, pa.Table]) -> None:
        state = self._state
        events, order = columns[EVENTS], columns.get(ORDER)
        if order is not None:
            events = events.take(order.column(0))
        kinds = {name: body.types[name] for name in events.column_names}
        if self._bound is None or self._bound.events != kinds:
            try:
                self._bound = bind(state.bind.program, kinds)
            except SchemaError as error:  # a user function that this process does not have
                raise StateError(
                    f"epoch {body.epoch} of {self._store.location} must be executed again from its commands: {error}. "
                    f'A program that has the function as it was can write a snapshot (engine.snapshot()); log="delta" '
                    f"never needs functions again"
                ) from None
        used = {name: one_chunk(events.column(name)) for name in events.column_names}
        moment = Moment(run_of(state.bind.program.seed, body.epoch), body.clock_us)
        where = f"epoch {body.epoch}, executed again from its commands"
        try:
            outcome = state.core.execute(self._bound, Batch(events, used, kinds), state.progress, "admit", moment)
        except LimitError as error:
            raise LimitError(f"{where}: {error}; open it with the limits it ran with") from None
        found = {name: outcome.counts[name] for name in ("committed", "aborted", "unmatched")}
        written = {name: body.counts[name] for name in found}
        if found != written:
            state.core.rollback()
            raise StateError(f"{where}, came to {found}, not to {written}: open it with the version that wrote it")
        state.core.commit()


def evolve_core(core: Core, before: Program, after: Program, make_core: MakeCore, config: Config) -> Core:
    """A core with the tables of another program and the rows of this one; new columns have their defaults."""
    if before.tables == after.tables:
        return core
    evolved = make_core(after.tables, config)
    core.end_snapshot()  # one that was under way is of no use any more
    core.begin_snapshot()
    while (chunk := core.snapshot_chunk(EVOLVED_ROWS)) is not None:
        new = after.table(chunk[0].name)
        evolved.apply(new, _evolved_rows(chunk[1], chunk[0], new))
    core.close()
    return evolved


def _evolved_rows(rows: pa.RecordBatch, old: TableSpec, new: TableSpec) -> pa.RecordBatch:
    """Versions go along where the new table keeps some, and the sessions over it are the same."""
    for (name, kind), value in zip(new.columns, new.default or (), strict=False):
        if name not in rows.schema.names:
            rows = rows.append_column(name, to_array([value], kind).take(pa.array([0] * rows.num_rows, pa.int64())))
    versions = old.kept is not None and new.kept is not None and old.kept.gaps == new.kept.gaps
    return rows.select(rows_schema(new, versions=versions).names)
