"""The native core behind the face of `core.Core`: programs compiled once, an epoch in one crossing per stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from . import _core, types
from .app import LATE_POLICIES
from .arrow_values import to_values
from .bind import BoundProgram
from .callee import begin, spent
from .columns import Batch, canonical, decoded, trimmed, without_idle_validity
from .config import Config
from .core import (
    DELETED_COLUMN,
    TIME_COLUMN,
    Moment,
    Outcome,
    Part,
    Progress,
    check_rows,
    late_message,
    rows_schema,
    version_columns,
)
from .errors import LateError
from .lower import lower
from .machine_code import kind_code
from .program import TableSpec
from .strategy import FIXED, NESTED, WHY, Strategy, by_transaction, name_of
from .types import NULL, Type

DRAWN_EVENTS_MAX = 64  # larger graphs are counted, not drawn


class NativeCore:
    """`interleaving` is for tests: (seed, workers), one thread plays all workers in an order drawn from the seed.

    `forced` and `recompute` are for benchmarks: a strategy that no Config can ask for; window sums computed anew.
    """

    reads_beside = True

    def __init__(
        self,
        tables: tuple[TableSpec, ...],
        config: Config,
        interleaving: tuple[int, int] | None = None,
        forced: Strategy | None = None,
        recompute: bool = False,
    ):
        self._recompute = recompute
        named = config.strategy
        self._nested = named if isinstance(named, Mapping) else None
        self._schedule = (
            forced or (FIXED.get(named) if isinstance(named, str) else NESTED),  # None: auto
            0 if config.punctuation == "auto" else config.punctuation,
            interleaving,
            config.observe,
        )
        self._specs = tables
        self._schemas = [rows_schema(table, versions=True) for table in tables]
        self._tables = {table.name: index for index, table in enumerate(tables)}
        self._max_string_bytes = config.max_string_bytes
        specs = [
            (
                [kind_code(kind) for _, kind in table.key],
                [kind_code(kind) for _, kind in table.columns],
                table.default,
                None if table.kept is None else table.kept.to_data(),
            )
            for table in tables
        ]
        self._engine = _core.Engine(specs, config.thread_count)
        self._compiled: tuple[BoundProgram, Any] | None = None

    @property
    def commits(self) -> int:
        return self._engine.commits

    def load(self, table: TableSpec, rows: pa.RecordBatch) -> None:
        kinds = [_kinds(kind) for _, kind in (*table.key, *table.columns)]
        self._engine.apply(self._tables[table.name], rows.columns, kinds, 0)

    def execute(
        self,
        bound: BoundProgram,
        batch: Batch,
        progress: Progress,
        late: str,
        moment: Moment,
        until: int | None = None,
        parts: NativeParts | None = None,
    ) -> Outcome:
        order_by = bound.program.order_by
        given = self._input(bound, batch, progress, late, moment, until)
        functions = given[0].functions
        begin(functions)
        try:
            epoch = self._engine.execute(None if parts is None else parts.parts, *given)
        except LateError as error:
            raise LateError(late_message(int(str(error)), order_by)) from None
        finally:
            if parts is not None:
                parts.close()
        watermark, last_key = _advance(epoch, bound, batch, progress)
        return Outcome(
            order=epoch.order(),
            diverted=epoch.diverted(),
            counts=epoch.counts(),
            seconds=epoch.seconds(),
            batches=[_batch(one) for one in epoch.batches()],
            columns=_columns(epoch, bound),
            watermark=watermark,
            last_key=last_key,
            python=spent(functions),
            clock=epoch.clock(),
            last_event=epoch.last_event(),
        )

    def parts(self, bound: BoundProgram, patient: bool = False) -> NativeParts | None:
        return None if bound.program.has_triggers else NativeParts(bound, patient)

    def explain(self, bound: BoundProgram, batch: Batch, progress: Progress, late: str) -> dict[str, Any] | None:
        given = self._input(bound, batch, progress, late, Moment())
        return _batch(self._engine.explain(DRAWN_EVENTS_MAX, *given))

    def _input(
        self,
        bound: BoundProgram,
        batch: Batch,
        progress: Progress,
        late: str,
        moment: Moment,
        until: int | None = None,
    ) -> tuple[Any, ...]:
        nested = self._nested and by_transaction(self._nested, [one.name for one in bound.program.transactions])
        return (
            self._compile(bound),
            [batch.used[name] for name in bound.events],
            batch.rows,
            LATE_POLICIES.index(late),
            progress.watermark,
            progress.last_key,
            (progress.clock, progress.last_event, until, self._recompute),
            (moment.draws, moment.wall_us),
            self._max_string_bytes,
            nested or (),
            *self._schedule,
        )

    def changes(self, table: TableSpec) -> pa.RecordBatch:
        schema = rows_schema(table, deleted=True, versions=True)
        arrays = self._engine.changes(self._tables[table.name], schema.types)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def commit(self) -> None:
        self._engine.commit()

    def rollback(self) -> None:
        self._engine.rollback()

    def apply(self, table: TableSpec, rows: pa.RecordBatch) -> None:
        check_rows(table, rows)
        kinds = [_kinds(kind) for _, kind in (*table.key, *table.columns)]
        versions = len(version_columns(table)) if TIME_COLUMN in rows.schema.names else 0
        kinds += [_kinds(types.INT64)] * versions
        if DELETED_COLUMN in rows.schema.names:
            kinds.append(_kinds(types.BOOL))
        self._engine.apply(self._tables[table.name], rows.columns, kinds, versions)

    def begin_snapshot(self) -> None:
        self._engine.begin_snapshot()

    def snapshot_chunk(self, max_rows: int) -> tuple[TableSpec, pa.RecordBatch] | None:
        chunk = self._engine.snapshot_chunk(max_rows, [schema.types for schema in self._schemas])
        if chunk is None:
            return None
        table, arrays = chunk
        return self._specs[table], pa.RecordBatch.from_arrays(arrays, schema=self._schemas[table])

    def end_snapshot(self) -> None:
        self._engine.end_snapshot()

    def tables(self, tables: Sequence[TableSpec]) -> list[pa.Table]:
        schemas = [rows_schema(table) for table in tables]
        numbers = [self._tables[table.name] for table in tables]
        found = self._engine.tables(numbers, [schema.types for schema in schemas])
        return [pa.Table.from_arrays(arrays, schema=schema) for arrays, schema in zip(found, schemas, strict=True)]

    def gather(self, column: pa.Array, order: pa.Array | None) -> pa.Array:
        column = trimmed(without_idle_validity(decoded(column)))
        layout = _layout(column.type)
        if layout is None or (order is not None and order.null_count):  # firings have no row
            return canonical(column if order is None else column.take(order))
        return self._engine.gather(column, *layout, None if order is None else order.to_numpy())

    def calls_here(self) -> bool:
        compiled = self._compiled
        return compiled is not None and any(one.runs_here() for one in compiled[1].functions)

    def state_size(self, enough: int = 0) -> tuple[int, int]:
        return self._engine.state_size(max(enough, 0))

    def validate(self) -> bool:
        return self._engine.validate()

    def close(self) -> None:
        self._compiled = None
        self._engine.close()

    def _compile(self, bound: BoundProgram) -> Any:
        if self._compiled is None or self._compiled[0] is not bound:
            lowered = lower(bound)
            kinds = [_kinds(kind) for kind in bound.events.values()]
            functions = [
                (one, list(map(kind_code, one.given)), list(map(kind_code, one.results))) for one in lowered.functions
            ]
            order_kinds = [kind_code(bound.events[name]) for name in bound.program.order_by]
            program = _core.Program(self._engine, lowered.words, lowered.strings, kinds, order_kinds, functions)
            self._compiled = (bound, program)
        return self._compiled[1]


class NativeParts:
    """See core.Parts."""

    def __init__(self, bound: BoundProgram, patient: bool):
        self.parts = _core.Parts(patient)
        self._bound = bound

    def next(self, rows_min: int, rows_max: int) -> Part | None:
        bound = self._bound
        found = self.parts.next(
            rows_min, rows_max, [_taken(kind) for kind in bound.returns.values()], _time_type(bound)
        )
        if found is None:
            return None
        begin, rows, order, returned, status, reason, timestamps = found
        return Part(begin, rows, order, _named(bound, rows, returned, status, reason, timestamps))

    def close(self) -> None:
        self.parts.close()


def _batch(report: dict[str, Any]) -> dict[str, Any]:
    """A report with words for numbers."""
    return {**report, "strategy": name_of(report["strategy"]), "why": WHY[report["why"]]}


def _kinds(kind: Type) -> tuple[int, int]:
    return kind_code(kind), kind_code(kind.element or NULL)


def _columns(epoch: Any, bound: BoundProgram) -> dict[str, pa.Array]:
    kinds = [_taken(kind) for kind in bound.returns.values()]
    returned = [None if kind is None else epoch.returned(index, kind) for index, kind in enumerate(kinds)]
    time = _time_type(bound)
    timestamps = None if time is None else epoch.timestamps(time)
    columns = _named(bound, epoch.rows(), returned, epoch.status(), epoch.reason(), timestamps)
    if bound.program.has_triggers:
        numbers = epoch.kinds()
        names = pa.array([one.name for one in bound.program.transactions], pa.string())
        columns["_kind"] = canonical(names.take(pa.array(numbers, mask=numbers < 0)))
    return columns


def _taken(kind: Type) -> pa.DataType | None:
    """The type of a column that the core has; of nulls it has none."""
    return None if kind == NULL else types.to_arrow(kind)


def _time_type(bound: BoundProgram) -> pa.DataType | None:
    order_by = bound.program.order_by
    return _taken(bound.events[order_by[0]]) if order_by else None


def _named(
    bound: BoundProgram,
    rows: int,
    returned: Sequence[pa.Array | None],
    status: pa.Array,
    reason: pa.Array,
    timestamps: pa.Array | None,
) -> dict[str, pa.Array]:
    columns = {
        name: pa.nulls(rows) if column is None else column for name, column in zip(bound.returns, returned, strict=True)
    }
    if timestamps is None:
        timestamps = pa.nulls(rows) if bound.program.order_by else pa.nulls(rows, pa.int64())
    return {**columns, "_status": status, "_reason": reason, "_ts": timestamps}


def _advance(epoch: Any, bound: BoundProgram, batch: Batch, progress: Progress) -> tuple[Any, tuple[Any, ...] | None]:
    """The watermark and the largest order key after this epoch."""
    watermark, last_key = progress.watermark, progress.last_key
    order_by = bound.program.order_by
    newest, last = epoch.watermark_row(), epoch.last_key_row()
    if last is not None:
        key = tuple(_value_at(batch, bound, name, last) for name in order_by)
        last_key = key if last_key is None else max(key, last_key)
    if newest is not None:
        own = key[0] if newest == last else _value_at(batch, bound, order_by[0], newest)
        watermark = own if watermark is None else max(own, watermark)
    return watermark, last_key


def _value_at(batch: Batch, bound: BoundProgram, name: str, row: int) -> Any:
    kind = bound.events[name]
    if kind == types.TIMESTAMP:
        return batch.used[name][row].value  # a cast, as below, takes a tenth of a millisecond even for one value
    return to_values(batch.used[name].slice(row, 1), kind)[0]


def _layout(kind: pa.DataType) -> tuple[int, int] | None:
    """(bits of a fixed-width value, bytes of an offset) where the core can gather the column itself."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 0, 4
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return 0, 8
    fixed = pa.types.is_primitive(kind) or pa.types.is_decimal128(kind)
    return (kind.bit_width, 0) if fixed and kind.bit_width in (1, 8, 16, 32, 64, 128) else None
