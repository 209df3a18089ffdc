"""What happens between epochs, each durable by itself: initial rows, ad-hoc transactions, time that goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from . import types
from .app import Table
from .bind import bind
from .calls import CallResult, call_batch, call_program, idle_batch, moment_of
from .columns import as_table, check_strings, one_chunk
from .core import Moment, Progress
from .draws import between_epochs
from .durable.binding import check_query
from .durable.files import DataFile
from .durable.journal import Journal
from .durable.records import Advance, Bind, Body, Call, Load
from .errors import EpochError, SchemaError
from .opened import after
from .program import TableSpec
from .reading import Reading
from .trace import unknown_name
from .types import Type


class Between(Reading):
    """An engine that runs no epochs, and all else."""

    def call(self, function: Callable[[Any], Any] | str, /, **columns: Any) -> CallResult:
        """Run one transaction now, after the last epoch: a function of the app (or its name), or one made ad hoc.

        `columns` are those of the event that it uses. A committed call is durable, as an epoch is.
        """
        with self._using():
            self._check_writable()
            before = self._visible()
            program = call_program(self.app, self.program, function)
            batch = call_batch(program, columns, before.types, self.config)
            bound = bind(program, batch.types)
            try:
                reached = before.progress.watermark
                time = reached if isinstance(reached, int) else None  # a string tells no time, nor needs a window one
                here = Progress(before.progress.epoch, clock=time)
                outcome = self._core.execute(bound, batch, here, "admit", self._moment_between(before.progress))
                self._check_state_size()
                found = {name: column[0].as_py() for name, column in outcome.columns.items()}
                committed = found["_status"] == "committed"
                returned = {name: found[name] for name in bound.returns} if committed else {}
                result = CallResult(found["_status"], found["_reason"], returned)
                if committed:
                    progress = replace(before.progress, calls=before.progress.calls + 1)
                    self._prepared = replace(before, progress=progress, commits=self._core.commits + 1)
                    self._commit_rows(lambda file: Call(program.transactions[0].name, file))
                else:
                    self._aborted_calls += 1
            finally:
                self._undo()
            self._visible()
            return result

    def advance(self, ts: Any) -> pa.Table:
        """Time goes on without events: fire all boundaries up to `ts`, a number or a datetime. What the firings gave.

        The watermark becomes `ts`, so that later events never come before a window that has fired. Durable by itself,
        between epochs; `_epoch` is that of the last one.
        """
        with self._using():
            self._check_writable()
            before = self._visible()
            batch = idle_batch(self.program, before.types)
            bound = self._bind(batch, before)
            until = moment_of(ts, bound.clock)
            reached = before.progress.clock
            try:
                moment = self._moment_between(before.progress)
                until_now = max(until, reached or until)
                outcome = self._core.execute(bound, batch, before.progress, "admit", moment, until_now)
                self._check_state_size()
                result = self._output(batch, outcome, before.progress.epoch - 1)
                known, calls = before.progress.watermark, before.progress.calls
                progress = replace(
                    after(outcome, before.progress.epoch),
                    watermark=until if known is None else max(known, until),
                    calls=calls,
                )
                if progress != before.progress and bound.clock != types.NULL:  # else no event was ever there
                    progress = replace(progress, calls=calls + 1)
                    self._prepared = replace(before, progress=progress, commits=self._core.commits + 1, bound=bound)
                    self._commit_rows(lambda file: Advance(progress, file))
            finally:
                self._undo()
            self._visible()
            return result

    def load(self, table: str | Table, data: Any) -> None:
        """Give a table its initial rows: key column(s) and value columns. Only before the first epoch."""
        with self._using():
            self._check_writable()
            spec = self._spec(table)
            if epoch := self._visible().progress.epoch:
                raise EpochError(
                    f"load({spec.name!r}) after epoch {epoch - 1}: load initial state before the first epoch"
                )
            rows = _initial_rows(spec, as_table(data), self._core.tables([spec])[0])
            for (name, kind), column in zip((*spec.key, *spec.columns), rows.columns, strict=True):
                check_strings(name, column, kind, self.config.max_string_bytes)
            self._check_state_size(more=rows.nbytes)
            if self._journal is None:
                self._core.load(spec, rows)
            else:
                self._load_durably(self._journal, spec, rows)

    def snapshot(self) -> None:
        """Write a snapshot now, all of it; they are also written by themselves (Config.snapshot_every)."""
        with self._using():
            journal = self._writing_journal("snapshot()")
            known = self._visible()
            journal.snapshot(self._core, known.progress, known.types)

    def bind_query(self, query_id: str) -> None:
        """Say which query's epochs these are. A state directory belongs to the first one that it is told."""
        with self._using():
            journal = self._writing_journal("bind_query()")
            bound = journal.history.bind()
            check_query(journal.store.location, bound, query_id)
            if bound.query is None:
                wanted = Bind(bound.app, bound.program, query_id)
                journal.committer.commit(lambda: journal.append(wanted), lambda: None)
            self._query_id = query_id

    # -- inside

    def _load_durably(self, journal: Journal, spec: TableSpec, rows: pa.RecordBatch) -> None:
        journal.committer.commit(
            lambda: journal.write_rows([(spec.name, rows)], lambda file: Load(spec.name, file)),
            lambda: self._core.load(spec, rows),
        )

    def _moment_between(self, progress: Progress) -> Moment:
        """Of what happens before the next epoch."""
        return self._moment(progress.epoch, between_epochs(progress.calls, self._aborted_calls))

    def _commit_rows(self, body: Callable[[DataFile], Body]) -> None:
        journal, core = self._journal, self._core
        if journal is None:
            core.commit()
            return
        changes = self._changes()
        journal.committer.commit(lambda: journal.write_rows(changes, body), core.commit)


def _initial_rows(spec: TableSpec, given: pa.Table, present: pa.Table) -> pa.RecordBatch:
    """Check initial rows: all columns, right types, no nulls, no key twice."""
    wanted = [*spec.key, *spec.columns]
    names = [name for name, _ in wanted]
    for name in given.column_names:
        if name not in names:
            raise SchemaError(unknown_name(name, f"table {spec.name!r}", names))
        if given.column_names.count(name) > 1:
            raise SchemaError(f"load({spec.name!r}): there are two columns called {name!r}")
    arrays = [_initial_column(spec.name, given, name, kind) for name, kind in wanted]
    keys = [name for name, _ in spec.key]
    rows = pa.RecordBatch.from_arrays(arrays, names=names)
    both = pa.concat_tables([present.select(keys), pa.Table.from_batches([rows]).select(keys)])
    distinct = both.group_by(keys).aggregate([]).num_rows
    if distinct != both.num_rows:
        raise SchemaError(
            f"load({spec.name!r}): {both.num_rows - distinct} key(s) occur twice; each row has its own key"
        )
    return rows


def _initial_column(table: str, given: pa.Table, name: str, kind: Type) -> pa.Array:
    where = f"load({table!r})"
    if name not in given.column_names:
        raise SchemaError(f"{where}: column {name!r} ({kind}) is missing")
    column = given.column(name)
    found = types.from_arrow(column.type)
    widens = found == kind or (found is not None and {found.name, kind.name} == {"decimal"})
    if len(column) == 0:  # pandas has no type for a column without values
        return pa.array([], types.to_arrow(kind))
    if not widens:
        raise SchemaError(f"{where}: column {name!r}: expected {kind}, got {column.type}")
    try:
        array = one_chunk(column.cast(types.to_arrow(kind)))
    except pa.ArrowInvalid as error:
        raise SchemaError(f"{where}: column {name!r}: {column.type} does not fit {kind} exactly: {error}") from None
    if array.null_count:
        first = pc.index(array.is_null(), True).as_py()
        raise SchemaError(f"{where}: column {name!r} has {array.null_count} null(s), the first in row {first}")
    return array
