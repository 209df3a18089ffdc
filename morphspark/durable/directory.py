"""A state directory on its own: what it holds can be read without the app that made it.

    state = StateDirectory("state/ledger")
    state.tables                          names, keys, columns, as the directory's program declares them
    state.epochs                          epochs whose state can be read
    state.table("accounts")               a pyarrow.Table of the newest state; .table("accounts", epoch=3)
    state.verify()                        what is wrong with its files, as text

Also beside a running query: records and data files never change, and what its retention deletes meanwhile is looked
for anew.
"""

from __future__ import annotations

import os

import pyarrow as pa

from ..config import Config
from ..errors import SchemaError, StateError
from ..native import NativeCore
from ..program import TableSpec
from .files import read_output
from .history import History, beside_a_writer, read_history
from .records import Bind, Epoch, Record
from .recovery import MakeCore, recover
from .store import Store, open_store
from .verify import problems


class StateDirectory:
    """A view of the directory as it was when it was opened, or at the last `refresh`."""

    def __init__(
        self,
        path: str | os.PathLike[str] | Store,
        config: Config | None = None,
        make_core: MakeCore = NativeCore,
    ):
        self.store = open_store(path)
        self._config, self._make_core = config or Config(), make_core
        self.refresh()

    def refresh(self) -> None:
        history = read_history(self.store)
        if history is None:
            raise StateError(f"{self.store.location} holds no state of morphspark: it has no records in log/")
        self.history: History = history

    @property
    def bind(self) -> Bind:
        return self.history.bind()

    @property
    def records(self) -> list[Record]:
        return list(self.history.records)

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        return self.bind.program.tables

    @property
    def epochs(self) -> list[int]:
        """Ids of epochs whose state can be read, the oldest first."""
        return [one.body.epoch for one in self.history.epochs() if next(self.history.starts(one.number), None)]

    def table(self, name: str, epoch: int | None = None) -> pa.Table:
        """The rows of a table: now, or right after an epoch."""
        self.history, rows = beside_a_writer(
            self.history, lambda history: table_at(history, name, epoch, self._make_core, self._config)
        )
        return rows

    def output(self, epoch: int) -> pa.Table:
        """What an epoch handed over."""
        body = self.history.of_epoch(epoch).body
        assert isinstance(body, Epoch)
        return read_output(self.store, body.output)

    def verify(self) -> list[str]:
        """Problems of all records, and of all data files that recovery or a repetition would read."""
        return list(problems(self.store))


def table_at(history: History, name: str, epoch: int | None, make_core: MakeCore, config: Config) -> pa.Table:
    """The rows of a table right after an epoch; None: now."""
    number = history.last.number if epoch is None else history.of_epoch(epoch).number
    return rows_after(history, number, name, make_core, config)


def rows_after(history: History, number: int, name: str, make_core: MakeCore, config: Config) -> pa.Table:
    """The rows of a table right after a record."""
    state = recover(history, number, make_core, config, only={name})
    try:
        spec = next((one for one in state.bind.program.tables if one.name == name), None)
        if spec is None:
            names = ", ".join(one.name for one in state.bind.program.tables)
            raise SchemaError(f"{history.store.location} has no table {name!r} then (tables: {names or 'none'})")
        return state.core.tables([spec])[0]
    finally:
        state.core.close()
