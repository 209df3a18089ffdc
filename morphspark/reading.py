"""Reading an engine: tables as the last commit left them, or as an epoch did; outputs that are stored.

Reads wait for no running batch, and never show what could still be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from .app import Table
from .columns import canonical, one_chunk
from .durable.directory import table_at
from .durable.files import read_output
from .durable.history import beside_a_writer
from .durable.records import Epoch
from .durable.store import Store
from .errors import ConfigError, EpochError
from .opened import Opened
from .program import TableSpec


@dataclass(frozen=True)
class StoredEpoch:
    """A committed epoch in a state directory."""

    epoch: int
    body: Epoch
    store: Store


class Reading(Opened):
    """An open engine, and what can be seen of it."""

    @property
    def late(self) -> pa.Table | None:
        """The events of the last epoch that were set aside by `App(late="divert")`; None before the first epoch."""
        committed = self._settled()
        if committed.late is None and committed.progress.epoch and self._history is not None:
            return self._stored_late()
        return committed.late

    def table(self, name: str | Table) -> TableView:
        """The committed rows of a table, given by its name or as what `app.table(…)` returned."""
        self._check_usable()
        return TableView(self, self._spec(name))

    def tables(self, *names: str | Table) -> dict[str, pa.Table]:
        """The committed rows of several tables (without names: of all), as one and the same commit left them."""
        self._check_usable()
        specs = [self._spec(name) for name in names] or list(self.program.tables)
        return dict(zip([spec.name for spec in specs], self._read(specs), strict=True))

    def last_stored(self) -> StoredEpoch:
        """What the last committed epoch left in the state directory."""
        with self._using():
            return self._last_epoch()

    def refresh(self) -> int:
        """Let a read-only engine catch up with the query that writes; the id of its next epoch."""
        with self._using():
            if not self.read_only or self._history is None:
                raise ConfigError("refresh() is for an engine opened with read_only=True; others are always up to date")
            self._catch_up(self._history)
            return self._visible().progress.epoch

    # -- inside

    def _read(self, specs: Sequence[TableSpec]) -> list[pa.Table]:
        """Beside whatever runs: the core knows the rows as its last commit left them."""
        if self.read_only or not self._core.reads_beside:
            with self._using():  # a refresh under way is not committed as a whole
                return self._core.tables(specs)
        self._check_usable()
        self._check_outside()
        self._check_durable()
        rows = self._core.tables(specs)
        self._check_durable()
        return rows

    def _check_durable(self) -> None:
        """All that can be seen by now is durable; waits for what was submitted."""
        if self._journal is not None:
            self._journal.committer.settle_ahead()
            self._journal.committer.check_running()

    def _table_at(self, name: str, epoch: int) -> pa.Table:
        """From the state directory, so that nobody waits for anybody."""
        self._check_usable()
        if self._history is None:
            raise EpochError(f"table {name!r}: an engine in memory keeps no past; open it with a path")
        self._check_outside()
        self._check_durable()
        history = self._history.copy()
        look = partial(table_at, name=name, epoch=epoch, make_core=self._make_core, config=self.config)
        return beside_a_writer(history, look)[1]

    def _stored_rows(self) -> pa.Table:
        last = self._last_epoch()
        return _canonical_table(read_output(last.store, last.body.output))

    def _stored_late(self) -> pa.Table:
        last = self._last_epoch()
        body, store = last.body, last.store
        if body.late is not None:
            return _canonical_table(read_output(store, body.late))
        return _canonical_table(read_output(store, body.output).select(list(body.event_columns)).slice(0, 0))

    def _last_epoch(self) -> StoredEpoch:
        record = self._history.last_epoch() if self._history is not None else None
        if record is None or self._history is None:
            raise EpochError("no epoch is stored: none was committed, or the engine is in memory")
        assert isinstance(record.body, Epoch)
        return StoredEpoch(record.body.epoch, record.body, self._history.store)


class TableView:
    """The committed rows of one table: key column(s), then value columns, in no promised order."""

    def __init__(self, engine: Reading, spec: TableSpec):
        self._engine = engine
        self._spec = spec

    def to_arrow(self) -> pa.Table:
        return self._engine._read([self._spec])[0]

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def at(self, epoch: int) -> PastTable:
        """The rows as they were right after an epoch, before any call that followed it."""
        return PastTable(self._engine, self._spec.name, epoch)

    def __len__(self) -> int:
        return self.to_arrow().num_rows

    def __repr__(self) -> str:
        return f"<morphspark table {self._spec.name!r} of {self._engine.app.name!r}>"


class PastTable:
    """The rows of one table right after an epoch; read from the state directory, beside whatever runs."""

    def __init__(self, engine: Reading, name: str, epoch: int):
        self._engine, self._name, self._epoch = engine, name, epoch

    def to_arrow(self) -> pa.Table:
        return self._engine._table_at(self._name, self._epoch)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def __len__(self) -> int:
        return self.to_arrow().num_rows

    def __repr__(self) -> str:
        return f"<morphspark table {self._name!r} of {self._engine.app.name!r} after epoch {self._epoch}>"


def _canonical_table(rows: pa.Table) -> pa.Table:
    return pa.table({name: canonical(one_chunk(rows.column(name))) for name in rows.column_names})
