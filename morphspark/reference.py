"""The oracle: the same program, run one transaction after the other in obvious Python.

Slow on purpose. Every scenario and every property test compares the native core with this one, byte for byte.
Where the two disagree, read this file and `values.py` beside the semantics and decide who is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from . import draws, types, values
from . import program as ir
from .app import App
from .arrow_values import to_array, to_values
from .bind import BoundProgram, BoundTransaction
from .callee import Callee, UserFailure, begin, callee, spent
from .columns import Batch, canonical, decoded
from .config import Config
from .core import DELETED_COLUMN, TIME_COLUMN, Moment, Outcome, Progress, check_rows, late_message, version_columns
from .engine import Engine
from .errors import LateError, LimitError
from .program import Column, Element, Operand, Ref, Step, TableSpec
from .types import Type
from .values import Failure
from .versions import BEFORE_ALL_TIME, Triggers, Version, versions_of, window_start
from .window import START, window_of

Key = tuple[Any, ...]
Row = tuple[Any, ...]
DELETED = None
OUTSIDE = object()  # in place of a key that is none of its candidates
ZEROS = {"bool": False, "int64": 0, "float64": 0.0, "string": "", "timestamp": 0, "decimal": 0}


def open_reference(app: App, config: Config | None = None, path: Any = None, **options: Any) -> Engine:
    """An engine like `app.open()`, executed by the oracle."""
    return Engine(app, path, config, make_core=ReferenceCore, **options)


class ReferenceCore:
    reads_beside = False

    def __init__(self, tables: tuple[TableSpec, ...], config: Config):
        self._specs = tables
        self._tables: dict[str, dict[Key, Row]] = {table.name: {} for table in tables}
        self._versions = versions_of(tables)
        self._before: tuple[Any, ...] | None = None  # tables, versions and the last sequence number, before the epoch
        self._left: dict[str, list[tuple[Any, ...]]] = {}  # versions and deletions of the executed epoch, as rows
        self._sequence = 0  # of the last transaction
        self._clock: int | None = None  # of the executed epoch
        self._moment = Moment()  # of the executed epoch
        self._written: dict[tuple[str, Key], None] = {}  # rows that the executed epoch wrote, in order
        self._snapshot: dict[str, list[tuple[Any, ...]]] | None = None  # rows that were not read yet
        self._max_string_bytes = config.max_string_bytes
        self._callees: dict[Any, Callee] = {}
        self.commits = 0

    def load(self, table: TableSpec, rows: pa.RecordBatch) -> None:
        for key, row in _rows_of(table, rows):
            self._tables[table.name][key] = row

    def parts(self, bound: BoundProgram, patient: bool = False) -> None:
        return None

    def execute(
        self,
        bound: BoundProgram,
        batch: Batch,
        progress: Progress,
        late: str,
        moment: Moment,
        until: int | None = None,
        parts: None = None,
    ) -> Outcome:
        events = Events(bound, batch)
        order, diverted, late_count = _order(events, progress, late)
        tables = {name: dict(rows) for name, rows in self._tables.items()}
        versions = {name: one.copy() for name, one in self._versions.items()}
        self._before = (tables, versions, self._sequence)
        self._written, self._left, self._moment = {}, {}, moment
        begin(self._callees.values())
        try:
            results, triggers = self._run_all(bound, events, order, progress, until)
        except BaseException:
            self.rollback()
            raise
        self._clock = triggers.clock
        outcome = _outcome(bound, events, diverted, late_count, results, progress, triggers)
        return replace(outcome, python=spent(self._callees.values()))

    def _run_all(
        self, bound: BoundProgram, events: Events, order: list[int], progress: Progress, until: int | None
    ) -> tuple[list[Result], Triggers]:
        results: list[Result] = []
        triggers = Triggers(bound, self._versions, progress.clock, progress.last_event)

        def fire(until: int) -> None:
            for transaction, columns, boundary in triggers.due(until):
                firing = Firing(columns)
                results.append(self._execute(bound, transaction, firing, 0, boundary, len(results)))
                results[-1].time = boundary

        for row in order:
            time = events.effective(row, progress)
            broken = events.null_order_column(row) is not None
            if events.has_clock and not broken:
                fire(time)
            now = time if events.has_clock else progress.clock
            results.append(self._run(bound, events, row, now, len(results)))
            results[-1].row, results[-1].time = row, time
            if events.has_clock and not broken:
                triggers.last_event = time
        if until is not None:
            fire(until)
        return results, triggers

    def explain(self, bound: BoundProgram, batch: Batch, progress: Progress, late: str) -> dict[str, Any] | None:
        return None  # it plans nothing

    def changes(self, table: TableSpec) -> pa.RecordBatch:
        if self._before is None:
            raise RuntimeError("changes: no executed epoch")
        if table.kept is not None:
            left = self._left.get(table.name, [])
            rows = _batch_of(table, [one[:-1] for one in left], versions=True)
            return rows.append_column(DELETED_COLUMN, pa.array([one[-1] for one in left], pa.bool_()))
        before, after = self._before[0][table.name], self._tables[table.name]
        keys = [key for name, key in self._written if name == table.name and (key in before or key in after)]
        zeros = tuple(ZEROS[kind.name] for _, kind in table.columns)
        rows = _batch_of(table, [(*key, *after.get(key, zeros)) for key in keys])
        return rows.append_column(DELETED_COLUMN, pa.array([key not in after for key in keys], pa.bool_()))

    def apply(self, table: TableSpec, rows: pa.RecordBatch) -> None:
        self._between_epochs("apply")
        check_rows(table, rows)
        deleted = rows.column(DELETED_COLUMN).to_pylist() if DELETED_COLUMN in rows.schema.names else []
        more = [rows.column(name).to_pylist() for name in version_columns(table)] if _has_versions(rows) else []
        for place, (key, row) in enumerate(_rows_of(table, rows)):
            if deleted and deleted[place]:
                self._tables[table.name].pop(key, None)
                if table.kept is not None:
                    self._versions[table.name].hide(key)
                continue
            self._tables[table.name][key] = row
            if more and more[1][place]:
                time, sequence, *firsts = (column[place] for column in more)
                version = Version(sequence, time, row, tuple(firsts))
                self._versions[table.name].rows.setdefault(key, []).append(version)
                self._sequence = max(self._sequence, sequence)

    def begin_snapshot(self) -> None:
        self._between_epochs("begin_snapshot")
        if self._snapshot is not None:
            raise RuntimeError("begin_snapshot: one is open")
        self._snapshot = {
            spec.name: [one for item in rows.items() for one in self._image(spec, *item)]
            for spec in self._specs
            if (rows := self._tables[spec.name])
        }

    def _image(self, table: TableSpec, key: Key, row: Row) -> list[tuple[Any, ...]]:
        """A row and its versions, as a snapshot has them."""
        if table.kept is None:
            return [(*key, *row)]
        found = self._versions[table.name].rows.get(key)
        return [(*key, *one.row, one.time, one.sequence, *one.firsts) for one in found or [_no_version(table, row)]]

    def snapshot_chunk(self, max_rows: int) -> tuple[TableSpec, pa.RecordBatch] | None:
        self._between_epochs("snapshot_chunk")
        if self._snapshot is None or max_rows < 1:
            raise RuntimeError("snapshot_chunk: no snapshot is open, or no rows are asked for")
        for table in self._specs:
            if rows := self._snapshot.pop(table.name, None):
                if len(rows) > max_rows:
                    self._snapshot[table.name] = rows[max_rows:]
                return table, _batch_of(table, rows[:max_rows], versions=True)
        return None

    def end_snapshot(self) -> None:
        self._snapshot = None

    def _between_epochs(self, what: str) -> None:
        if self._before is not None:
            raise RuntimeError(f"{what}: an executed epoch waits for its end")

    def commit(self) -> None:
        if self._before is not None:
            self._before, self.commits = None, self.commits + 1
            for versions in self._versions.values():
                versions.collect(self._clock)

    def rollback(self) -> None:
        if self._before is not None:
            (self._tables, self._versions, self._sequence), self._before = self._before, None

    def tables(self, tables: Sequence[TableSpec]) -> list[pa.Table]:
        return [pa.Table.from_batches([_batch_of(table, self._rows(table))]) for table in tables]

    def _rows(self, table: TableSpec) -> list[tuple[Any, ...]]:
        return [(*key, *row) for key, row in self._tables[table.name].items()]

    def gather(self, column: pa.Array, order: pa.Array | None) -> pa.Array:
        return canonical(column if order is None else decoded(column).take(order))

    def calls_here(self) -> bool:
        return any(one.runs_here() for one in tuple(self._callees.values()))

    def state_size(self, enough: int = 0) -> tuple[int, int]:
        """A stand-in for bytes: what dicts take is of no interest, and no limit is meant for this core."""
        rows = sum(len(table) for table in self._tables.values())
        return rows, 64 * rows

    def close(self) -> None:
        self._tables = {}

    def _run(self, bound: BoundProgram, events: Events, row: int, time: int | None, position: int) -> Result:
        if (column := events.null_order_column(row)) is not None:
            return Result("aborted", f"null: {column}")
        for transaction in bound.transactions:
            if events.matches(transaction, row):
                break
        else:
            return Result("unmatched", None)
        return self._execute(bound, transaction, events, row, time, position)

    def _execute(
        self,
        bound: BoundProgram,
        transaction: BoundTransaction,
        events: Events | Firing,
        row: int,
        time: int | None,
        position: int,
    ) -> Result:
        now = BEFORE_ALL_TIME if time is None else time
        run = Run(bound, transaction, events, row, self, now, position)
        name = transaction.transaction.name
        self._sequence += 1
        try:
            returned = run.run()
        except Abort as abort:
            return Result("aborted", abort.reason, kind=name)
        for (table, key), written in run.writes.items():
            self._written[table, key] = None
            if (table, key) in run.deleted:
                self._leave(bound.program.table(table), key, DELETED, now)
            if written is DELETED:
                self._tables[table].pop(key, None)
            else:
                self._tables[table][key] = written
                self._leave(bound.program.table(table), key, written, now)
        return Result("committed", None, returned, name)

    def _leave(self, table: TableSpec, key: Key, row: Row | None, time: int) -> None:
        """A version, or the end of all there are."""
        if table.kept is None:
            return
        versions, left = self._versions[table.name], self._left.setdefault(table.name, [])
        if row is DELETED:
            versions.hide(key)
            zeros = tuple(ZEROS[kind.name] for _, kind in table.columns)
            left.append((*key, *zeros, *(0 for _ in version_columns(table)), True))
        else:
            versions.add(key, self._sequence, time, row)
            left.append((*key, *row, time, self._sequence, *versions.rows[key][-1].firsts, False))


def _rows_of(table: TableSpec, rows: pa.RecordBatch) -> Iterator[tuple[Key, Row]]:
    parts = len(table.key)
    columns = [to_values(rows.column(i), kind) for i, (_, kind) in enumerate((*table.key, *table.columns))]
    for row in zip(*columns, strict=True):
        yield row[:parts], tuple(map(values.one_nan, row[parts:]))


def _has_versions(rows: pa.RecordBatch) -> bool:
    return TIME_COLUMN in rows.schema.names


def _no_version(table: TableSpec, row: Row) -> Version:
    assert table.kept is not None
    return Version(0, 0, row, tuple(0 for _ in table.kept.gaps))


def _batch_of(table: TableSpec, rows: list[tuple[Any, ...]], versions: bool = False) -> pa.RecordBatch:
    """Whole rows, key parts first."""
    names = [*table.key, *table.columns]
    names += [(name, types.INT64) for name in version_columns(table) if versions]
    columns = [to_array([row[i] for row in rows], kind) for i, (_, kind) in enumerate(names)]
    return pa.RecordBatch.from_arrays(columns, names=[name for name, _ in names])


class Abort(Exception):
    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


class Result:
    def __init__(
        self, status: str, reason: str | None, returned: dict[str, Any] | None = None, kind: str | None = None
    ):
        self.status = status
        self.reason = reason
        self.returned = returned or {}
        self.kind = kind  # which transaction ran
        self.row: int | None = None  # of the batch; None: a firing
        self.time: Any = None  # its effective timestamp


class Events:
    """The used columns of a batch as Python values."""

    def __init__(self, bound: BoundProgram, batch: Batch):
        self.order_by = bound.program.order_by
        self.kinds = bound.events
        self.rows = batch.rows
        self.columns = {name: to_values(array, self.kinds[name]) for name, array in batch.used.items()}

    @property
    def has_clock(self) -> bool:
        """The first order column tells how much time passes."""
        return bool(self.order_by) and self.kinds[self.order_by[0]] in (types.INT64, types.TIMESTAMP)

    def effective(self, row: int, progress: Progress) -> Any:
        """The effective timestamp; None where there is no timestamp."""
        own = self.columns[self.order_by[0]][row] if self.order_by else None
        return own if own is None or progress.watermark is None else max(own, progress.watermark)

    def null_order_column(self, row: int) -> str | None:
        return next((name for name in self.order_by if self.columns[name][row] is None), None)

    def order_key(self, row: int) -> tuple[Any, ...]:
        return tuple(self.columns[name][row] for name in self.order_by)

    def matches(self, bound: BoundTransaction, row: int) -> bool:
        return bound.transaction.trigger is None and all(
            self.columns[name][row] is not None
            and any(
                values.compare(self.columns[name][row], self.kinds[name], one.value, one.type) == 0 for one in accepted
            )
            for name, accepted in bound.transaction.on
        )


class Firing:
    """What a trigger's transaction has in place of an event."""

    def __init__(self, columns: dict[str, Any]):
        self.columns = {name: [value] for name, value in columns.items()}


def _order(events: Events, progress: Progress, late: str) -> tuple[list[int], list[int], int]:
    """Rows in transaction order, rows diverted, and how many were late."""
    whole = [row for row in range(events.rows) if events.null_order_column(row) is None]
    broken = [row for row in range(events.rows) if events.null_order_column(row) is not None]
    if not events.order_by:
        return whole, [], 0
    whole.sort(key=events.order_key)  # stable: ties keep their arrival order
    last = progress.last_key
    late_rows = [row for row in whole if last is not None and events.order_key(row) < last]
    if late_rows and late == "fail":
        raise LateError(late_message(len(late_rows), events.order_by))
    if late == "divert":
        return [row for row in whole if row not in set(late_rows)] + broken, late_rows, len(late_rows)
    return whole + broken, [], len(late_rows)


def _outcome(
    bound: BoundProgram,
    events: Events,
    diverted: list[int],
    late_count: int,
    results: list[Result],
    progress: Progress,
    triggers: Triggers,
) -> Outcome:
    order = [result.row for result in results]
    columns = {
        name: to_array([result.returned.get(name) for result in results], kind) for name, kind in bound.returns.items()
    }
    columns["_status"] = pa.array([result.status for result in results], pa.string())
    columns["_reason"] = pa.array([result.reason for result in results], pa.string())
    watermark, last_key = progress.watermark, progress.last_key
    if events.order_by:
        first = events.order_by[0]
        rows = [row for row in order if row is not None]
        stamps = [events.columns[first][row] for row in rows]
        columns["_ts"] = to_array([result.time for result in results], events.kinds[first])
        watermark = max((ts for ts in (*stamps, watermark) if ts is not None), default=None)
        keys = [events.order_key(row) for row in rows if events.null_order_column(row) is None]
        last_key = max([*keys, *([last_key] if last_key is not None else [])], default=None)
    else:
        columns["_ts"] = to_array([None] * len(order), types.INT64)
    if bound.program.has_triggers:
        columns["_kind"] = pa.array([result.kind for result in results], pa.string())
    counts = {
        status: sum(result.status == status for result in results) for status in ("committed", "aborted", "unmatched")
    }
    return Outcome(
        order=None if order == list(range(events.rows)) else pa.array(order, pa.int64()),
        diverted=pa.array(diverted, pa.int64()) if diverted else None,
        columns=columns,
        counts={**counts, "late": late_count},
        watermark=watermark,
        last_key=last_key,
        clock=triggers.clock,
        last_event=triggers.last_event,
    )


class Run:
    """One transaction over one event: the steps, line by line."""

    def __init__(
        self,
        bound: BoundProgram,
        transaction: BoundTransaction,
        events: Events | Firing,
        row: int,
        core: ReferenceCore,
        now: int,
        position: int,
    ):
        self.callees = core._callees
        self.program = bound.program
        self.returned_types = bound.returns
        self.bound = transaction
        self.steps = transaction.transaction.steps
        self.ends = {each: end for end, each in ir.loop_starts(self.steps).items()}
        self.events = events
        self.event = row
        self.tables = core._tables
        self.versions = core._versions
        self.max_string_bytes = core._max_string_bytes
        self.now = now  # the effective timestamp
        self.moment = core._moment
        self.position = position  # in the order of transactions
        self.iterations: list[int] = []  # of the loops that run, the outermost first
        self.results: dict[int, Any] = {}
        self.elements: dict[tuple[int, int], Any] = {}
        self.writes: dict[tuple[str, Key], Row | None] = {}
        self.deleted: set[tuple[str, Key]] = set()  # rows that were deleted on the way, whatever came after

    def run(self) -> dict[str, Any]:
        self._range(0, len(self.steps))
        returned = {}
        for name, operand in self.bound.transaction.returns:
            try:
                kind = self.returned_types[name]
                value = values.convert(self._value(operand), self.bound.type_of(operand), kind)
                returned[name] = values.one_nan(value)
            except Failure:
                raise Abort(f"overflow: {name}") from None
        return returned

    def _range(self, start: int, end: int) -> None:
        index = start
        while index < end:
            step = self.steps[index]
            happens = self._happens(step)
            if step.op == "each":
                if happens:
                    self._loop(index, step)
                index = self.ends[index]
            elif happens:
                try:
                    self.results[index] = self._step(index, step)
                except Failure as failure:
                    self._abort(index, failure)
            index += 1

    def _happens(self, step: Step) -> bool:
        return all(self._value(condition) is wanted for condition, wanted in step.guard)

    def _abort(self, index: int, failure: Failure) -> None:
        raise Abort(ir.reasons(self.bound.transaction)[index][failure.kind])

    def _loop(self, index: int, step: Step) -> None:
        lists = [self._value(arg) or [] for arg in step.args]
        if any(len(one) != len(lists[0]) for one in lists):
            self._abort(index, Failure("list"))
        for iteration, elements in enumerate(zip(*lists, strict=True)):
            for position, element in enumerate(elements):
                self.elements[index, position] = element
            self.iterations.append(iteration)
            self._range(index + 1, self.ends[index])
            self.iterations.pop()

    def _value(self, operand: Operand) -> Any:
        if isinstance(operand, Ref):
            return self.results[operand.step]
        if isinstance(operand, Column):
            return self.events.columns[operand.name][self.event]
        if isinstance(operand, Element):
            return self.elements[operand.loop, operand.position]
        return operand.value

    def _needed(self, step: Step, position: int) -> Any:
        """An operand that must not be null."""
        value = self._value(step.args[position])
        if value is None:
            raise Failure(f"null{position}")
        return value

    def _step(self, index: int, step: Step) -> Any:
        op, args, type_of = step.op, step.args, self.bound.type_of
        result = self.bound.types[index]
        if op == "row":
            return tuple(self._value(arg) for arg in args)
        if op == "choose":
            return self._choose(step)
        if op in ir.ACCESSES:
            return self._access(step)
        if op == "rows":
            return []
        if op == "collect":
            self._value(args[1]).append(self._value(args[0]))
            return None
        if op == "window":
            return self._window(step, result)
        if op == "is_null":
            return self._value(args[0]) is None
        if op == "coalesce":
            return self._coalesce(args, result)
        if op == "where":
            chosen = args[1] if self._needed(step, 0) else args[2]
            return values.convert(self._value(chosen), type_of(chosen), result)
        if op == "begin":
            return []
        if op == "random":
            return draws.uniform(self.moment.draws, self.position, index, reversed(self.iterations))
        if op == "now":
            return self.moment.wall_us
        given = [self._needed(step, position) for position in range(len(args))]
        if op in ("add", "sub", "mul", "div", "floordiv", "mod"):
            return self._limited(values.arithmetic(op, given[0], type_of(args[0]), given[1], type_of(args[1]), result))
        if op in values.COMPARISONS:
            return values.COMPARISONS[op](values.compare(given[0], type_of(args[0]), given[1], type_of(args[1])))
        if op == "and":
            return given[0] and given[1]
        if op == "or":
            return given[0] or given[1]
        if op == "xor":
            return given[0] != given[1]
        if op == "not":
            return not given[0]
        if op == "neg":
            return values.negate(given[0], result)
        if op == "work":
            return given[0]  # its value is its argument; what it costs is the native engine's business
        if op == "abs":
            return values.absolute(given[0], result)
        if op in ("min", "max"):
            converted = [values.convert(one, type_of(arg), result) for one, arg in zip(given, args, strict=True)]
            return values.extreme(op, converted, result)
        if op == "call":
            return self._call(step, given)
        if op == "result":
            return given[0][int(step.text)]
        if op == "require":
            if not given[0]:
                raise Failure("require")
            return None
        if op == "when":
            return given[0]
        if op == "accumulate":
            begin = args[1]
            assert isinstance(begin, Ref)
            given[1].append(values.convert(given[0], type_of(args[0]), self.bound.accumulated[begin.step]))
            return None
        assert op == "reduce", op
        begin = args[0]
        assert isinstance(begin, Ref)
        return values.reduce(step.text, given[0], self.bound.accumulated.get(begin.step, types.NULL), result)

    def _call(self, step: Step, given: list[Any]) -> Any:
        spec = self.bound.transaction.function_of(step)
        key = (spec, tuple(map(self.bound.type_of, step.args)))
        if key not in self.callees:
            self.callees[key] = callee(*key)
        try:
            results = tuple(map(self._limited, self.callees[key].call(given)))
        except UserFailure as failure:
            raise Abort(failure.reason) from None
        return results if len(results) > 1 else results[0]

    def _coalesce(self, args: tuple[Operand, ...], result: Type) -> Any:
        for arg in args:
            if (value := self._value(arg)) is not None:
                return values.convert(value, self.bound.type_of(arg), result)
        return None

    def _limited(self, value: Any) -> Any:
        if isinstance(value, str) and len(value.encode()) > self.max_string_bytes:
            raise LimitError(f"a string grew over max_string_bytes={self.max_string_bytes}; nothing was changed")
        return value

    # -- state

    def _access(self, step: Step) -> Any:
        table = self.program.table(step.table)
        key = self._key(self._value(step.args[0]))
        current = self._current(table, key)
        if step.op == "exists":
            return current is not None
        if step.op == "read":
            return self._readable(table, current)[table.column_index(step.columns[0])]
        if step.op == "write":
            value = self._stored(table, step, 1)
            row = list(self._readable(table, current))
            row[table.column_index(step.columns[0])] = value
            self.writes[table.name, key] = tuple(row)
        elif step.op == "insert":
            inserted = tuple(self._stored(table, step, position) for position in range(1, len(step.args)))
            if current is not None:
                raise Failure("exists")
            self.writes[table.name, key] = inserted
        elif current is not None:
            self.writes[table.name, key] = DELETED
            self.deleted.add((table.name, key))
        return None

    def _window(self, step: Step, result: Type) -> Any:
        table = self.program.table(step.table)
        rows = self._value(step.args[0])
        keys = [self._key(key) for key in (rows if isinstance(rows, list) else [rows])]
        kind, span = window_of(step.text)
        start = window_start(span, self.now, self.events.columns[START][0] if span.unit == "trigger" else None)
        found = self.versions[table.name].window(keys, start, self.now, span.size)
        column = table.column_index(step.columns[0])
        return values.window(kind, [row[column] for row in found], table.columns[column][1], result)

    def _choose(self, step: Step) -> Any:
        """The key if it is one of the candidates."""
        parts = len(self.program.table(step.table).key)
        key = tuple(self._value(arg) for arg in step.args[:parts])
        candidates: list[Key] = []
        for arg in step.args[parts:]:
            found = self._value(arg)
            candidates += [(one,) for one in found or []] if isinstance(arg, Column) else [found]
        return key if None in key or key in candidates else OUTSIDE

    def _key(self, key: Any) -> Key:
        """The key of a row that is used."""
        if key is OUTSIDE:
            raise Failure("outside")
        if None in key:
            raise Failure("key")
        return key

    def _current(self, table: TableSpec, key: Key) -> Row | None:
        if (table.name, key) in self.writes:
            return self.writes[table.name, key]
        return self.tables[table.name].get(key)

    def _readable(self, table: TableSpec, current: Row | None) -> Row:
        row = current if current is not None else table.default
        if row is None:
            raise Failure("missing")
        return row

    def _stored(self, table: TableSpec, step: Step, position: int) -> Any:
        kind = table.columns[table.column_index(step.columns[position - 1])][1]
        return values.assign(self._needed(step, position), self.bound.type_of(step.args[position]), kind)
