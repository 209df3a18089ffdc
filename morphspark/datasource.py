"""Tables of a state directory as DataFrames, also while a query writes to it:

    spark.read.format("morphspark").option("path", "state/ledger").option("table", "accounts").load()

    path     the state directory
    table    the table's name
    epoch    the state right after this epoch, as far back as retain_epochs says; without it the newest one when
             `load()` is called

Spark finds this by itself: it looks for modules called `pyspark_*`, and finds `pyspark_morphspark`. Files are read by
tasks, so executors must see the directory at the same path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from . import types
from .durable.history import History, read_history
from .durable.shares import Share, plan_shares, read_share, spec_after
from .durable.store import open_store
from .errors import ConfigError, StateError
from .program import TableSpec

FORMAT = "morphspark"
OPTIONS = ("path", "table", "epoch")


class StateSource(DataSource):
    """`spark.read.format("morphspark")`. Spark makes one at `load()` and keeps it with the DataFrame."""

    def __init__(self, options: Any):
        super().__init__(options)
        self._view = View.asked_for(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(spec_after(self._view.history(), self._view.record, self._view.table))

    def reader(self, schema: StructType) -> StateReader:
        return StateReader(self._view)


@dataclass(frozen=True)
class View:
    """A table right after a record."""

    location: str
    table: str
    record: int

    @staticmethod
    def asked_for(options: Any) -> View:
        _check_options(options)
        store = open_store(options["path"])
        history = read_history(store)
        if history is None:
            raise StateError(
                f"{store.location} holds no state of morphspark: it has no records in log/. Name the folder that was "
                f"given to ms.Sink(path=…) or app.open(…)"
            )
        epoch = options.get("epoch")
        record = history.last if epoch is None else history.of_epoch(int(epoch))
        return View(store.location, options["table"], record.number)

    def history(self) -> History:
        """The directory as it is now; it must still know the record."""
        history = read_history(open_store(self.location))
        if history is None or next(history.starts(self.record), None) is None:
            raise StateError(
                f"{self.location}: the state that load() found is no longer kept. load() again, or let the query keep "
                f"more epochs (Config.retain_epochs)"
            )
        return history


def _check_options(given: Any) -> None:
    where = f'spark.read.format("{FORMAT}")'
    for name in given:
        if name.lower() not in OPTIONS:
            raise ConfigError(f"{where}: unknown option {name!r}; expected {', '.join(OPTIONS)}")
    for name, example in (("path", "state/ledger"), ("table", "accounts")):
        if not given.get(name):
            raise ConfigError(f'{where}: option {name!r} is missing; add .option("{name}", "{example}")')
    epoch = given.get("epoch")
    if epoch is not None and not epoch.strip().isdecimal():
        raise ConfigError(f"{where}: option 'epoch' is {epoch!r}; expected a whole number, or nothing: the newest")


class SharePartition(InputPartition):
    def __init__(self, location: str, share: Share):
        self.location, self.share = location, share


class StateReader(DataSourceReader):
    def __init__(self, view: View):
        self._view = view

    def partitions(self) -> list[SharePartition]:
        view = self._view
        return [SharePartition(view.location, one) for one in plan_shares(view.history(), view.record, view.table)]

    def read(self, partition: SharePartition) -> Iterator[pa.RecordBatch]:
        try:
            yield from read_share(open_store(partition.location), partition.share)
        except StateError as error:
            raise StateError(
                f"{error}. If a query writes to this directory, its retention may have deleted the file since this "
                f"load(): load() again, or let it keep more epochs (Config.retain_epochs)"
            ) from None


def spark_schema(table: TableSpec) -> StructType:
    """Key column(s), then value columns."""
    columns = (*table.key, *table.columns)
    return StructType([StructField(name, from_arrow_type(types.to_arrow(kind))) for name, kind in columns])
