"""An engine: shared state, and epochs of transactions over it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from . import types
from .app import App, Table
from .bind import BoundProgram, bind
from .columns import Batch, admit, as_table, check_strings, one_chunk
from .config import Config
from .core import Core, Outcome, Progress
from .errors import ClosedError, ConfigError, EpochError, LimitError, SchemaError
from .explain import Explanation
from .metrics import Metrics, breakdown, main_strategy
from .program import TableSpec
from .strategy import check_names
from .trace import unknown_name
from .types import Type


@dataclass(frozen=True)
class _Committed:
    """What the engine knows after an epoch. Replaced whole, so that an interrupt never leaves half of it."""

    progress: Progress
    types: Mapping[str, Type]  # of the event columns seen so far
    bound: BoundProgram | None = None
    late: pa.Table | None = None


class Engine:
    """Use as a context manager, or call `close()`. Calls from several threads run one after the other."""

    def __init__(self, app: App, path: str | None = None, config: Config | None = None, core: Core | None = None):
        if not isinstance(app, App):
            raise ConfigError(f"Engine(app=…): expected an ms.App, got a {type(app).__name__}")
        if isinstance(path, Config):
            raise ConfigError("app.open(…): the first argument is a path; write app.open(config=ms.Config(…))")
        if config is not None and not isinstance(config, Config):
            raise ConfigError(f"config=…: expected an ms.Config(…), got a {type(config).__name__}")
        if path is not None:
            raise ConfigError("a durable state directory is not there yet: open the engine without a path")
        self.app = app
        self.config = config or Config()
        self.metrics = Metrics()
        self.program = app.program
        if isinstance(self.config.strategy, Mapping):
            check_names(self.config.strategy, [one.name for one in self.program.transactions])
        self._core = core or _native_core(self.program.tables, self.config)
        self._committed = self._prepared = _Committed(Progress(), dict(app.events or {}))
        self._lock = threading.RLock()
        self._closed = False
        self._busy = False  # a call is under way; the lock lets its own thread in again, from a signal handler
        self._close_wanted = False
        self._no_late: tuple[pa.Schema, pa.Table] | None = None  # events' schema, and no late event of it
        self._process = os.getpid()

    # -- epochs

    @property
    def epoch(self) -> int:
        """The id of the next epoch; `epoch - 1` is the last committed one."""
        return self._settled().progress.epoch

    @property
    def watermark(self) -> Any:
        """The largest timestamp of any committed event: microseconds for a timestamp column."""
        return self._settled().progress.watermark

    @property
    def late(self) -> pa.Table | None:
        """The events of the last epoch that were set aside by `App(late="divert")`; None before the first epoch."""
        return self._settled().late

    def process(self, data: Any) -> pa.Table:
        """Run one epoch: admit → plan and execute → commit → output. All of it happens, or nothing."""
        with self._using():
            clock = _Clock()
            before = self._settled()
            config = self.config
            batch = admit(data, self.program, before.types, config.max_epoch_rows, config.max_string_bytes)
            bound = self._bind(batch, before)
            clock.lap("admit")
            try:
                outcome = self._core.execute(bound, batch, before.progress, self.app.late)
                clock.lap("core")
                self._check_state_size()
                result = self._output(batch, outcome, before.progress.epoch)
                progress = Progress(before.progress.epoch + 1, outcome.watermark, outcome.last_key)
                late = self._diverted(batch, outcome)
                self._prepared = _Committed(progress, {**before.types, **batch.types}, bound, late)
                self._core.commit()
            except BaseException:
                self._core.rollback()  # does nothing if the interrupt came after the commit
                raise
            self._settled()
            clock.lap("output")
            self._measure(batch, outcome, clock)
            return result

    def _settled(self) -> _Committed:
        """What is committed. The core's commit decides: an interrupt just after it must not lose the epoch."""
        if self._core.commits == self._prepared.progress.epoch:
            self._committed = self._prepared
        return self._committed

    def explain(self, data: Any) -> Explanation:
        """The task precedence graph that these events would make, and how it would be run. Changes nothing."""
        with self._using():
            before = self._settled()
            config = self.config
            batch = admit(data, self.program, before.types, config.max_epoch_rows, config.max_string_bytes)
            found = self._core.explain(self._bind(batch, before), batch, before.progress)
            return Explanation(self.program, config, found)

    def load(self, table: str | Table, data: Any) -> None:
        """Give a table its initial rows: key column(s) and value columns. Only before the first epoch."""
        with self._using():
            spec = self._spec(table)
            if self.epoch:
                raise EpochError(
                    f"load({spec.name!r}) after epoch {self.epoch - 1}: load initial state before the first epoch"
                )
            rows = _initial_rows(spec, as_table(data), self._core.table(spec))
            for (name, kind), column in zip((*spec.key, *spec.columns), rows.columns, strict=True):
                check_strings(name, column, kind, self.config.max_string_bytes)
            self._check_state_size(more=rows.nbytes)
            self._core.load(spec, rows)

    def table(self, name: str | Table) -> TableView:
        """The committed rows of a table, given by its name or as what `app.table(…)` returned."""
        self._check_usable()
        return TableView(self, self._spec(name))

    # -- life

    def close(self) -> None:
        """Free the state. Closing twice is fine; an engine inherited through fork is left to its own process."""
        if os.getpid() != self._process:
            self._closed = True  # the lock may be held by a thread that exists only there
            return
        with self._lock:
            if self._busy:  # a signal handler closes it under a running epoch: let that end first
                self._close_wanted = True
                return
            if not self._closed:
                self._core.close()
            self._closed = True

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"next epoch {self.epoch}"
        return f"<morphspark engine of {self.app.name!r}: {state}>"

    # -- inside

    @contextlib.contextmanager
    def _using(self) -> Iterator[None]:
        """Alone, on an open engine of this process."""
        self._check_usable()  # before the lock, which a fork may have copied while it was held
        with self._lock:
            self._check_usable()
            if self._busy:
                raise EpochError(
                    "the engine is at work in this thread: a signal handler (or a callback) can't use it until the "
                    "call that it interrupted returns; set a flag there and act on it afterwards"
                )
            self._busy = True
            try:
                self._core.rollback()  # an interrupt may have left an executed epoch
                yield
            finally:
                self._busy = False
                if self._close_wanted:
                    self.close()

    def _check_usable(self) -> None:
        if self._closed:
            raise ClosedError("the engine is closed; open a new one with app.open()")
        if os.getpid() != self._process:
            raise ClosedError("the engine was opened in another process (before a fork); open one in this process")

    def _spec(self, name: str | Table) -> TableSpec:
        if isinstance(name, Table):
            if name.spec not in self.program.tables:
                raise SchemaError(f"table {name.name!r} is not one of app {self.app.name!r} as this engine opened it")
            return name.spec
        for spec in self.program.tables:
            if spec.name == name:
                return spec
        names = ", ".join(spec.name for spec in self.program.tables)
        raise SchemaError(f"app {self.app.name!r} has no table {name!r} (tables: {names or 'none'})")

    def _bind(self, batch: Batch, before: _Committed) -> BoundProgram:
        if before.bound is None or before.bound.events != batch.types:
            return bind(self.program, batch.types)
        return before.bound

    def _check_state_size(self, more: int = 0) -> None:
        size = self._core.state_size(enough=self.config.max_state_bytes - more)[1] + more
        if size > self.config.max_state_bytes:
            raise LimitError(
                f"the state would take {size} bytes, more than max_state_bytes={self.config.max_state_bytes}; "
                f"nothing was changed. Delete rows, raise the limit, or use a larger machine"
            )

    def _output(self, batch: Batch, outcome: Outcome, epoch: int) -> pa.Table:
        columns = {
            name: self._core.gather(one_chunk(batch.events.column(name)), outcome.order)
            for name in batch.events.column_names
        }
        own = dict(outcome.columns)
        timestamps = own.pop("_ts")
        epochs = pa.repeat(pa.scalar(epoch, pa.int64()), len(timestamps))
        return pa.table({**columns, **own, "_epoch": epochs, "_ts": timestamps})

    def _diverted(self, batch: Batch, outcome: Outcome) -> pa.Table:
        schema = batch.events.schema
        if outcome.diverted is not None:
            return self._late_rows(batch, outcome.diverted)
        if self._no_late is None or not self._no_late[0].equals(schema):  # nearly every epoch: made once
            self._no_late = (schema, self._late_rows(batch, pa.array([], pa.int64())))
        return self._no_late[1]

    def _late_rows(self, batch: Batch, rows: pa.Array) -> pa.Table:
        columns = {name: one_chunk(batch.events.column(name)) for name in batch.events.column_names}
        return pa.table({name: self._core.gather(column, rows) for name, column in columns.items()})

    def _measure(self, batch: Batch, outcome: Outcome, clock: _Clock) -> None:
        rows, size = self._core.state_size()
        self.metrics.add(
            {
                "epoch": self.epoch - 1,
                "events": batch.rows,
                **outcome.counts,
                "diverted": 0 if outcome.diverted is None else len(outcome.diverted),
                "strategy": main_strategy(outcome.batches),
                "threads": self.config.thread_count,
                "state_rows": rows,
                "state_bytes": size,
                "total_ms": clock.total_ms(),
                **clock.laps_ms,
                **{f"core_{stage}_ms": seconds * 1e3 for stage, seconds in outcome.seconds.items()},
                **breakdown(outcome.batches, self.config.thread_count),
                "batches": list(outcome.batches),
            }
        )


class _Clock:
    """Measures the stages of an epoch from outside of them."""

    def __init__(self) -> None:
        self._started = self._last = time.perf_counter()
        self.laps_ms: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps_ms[f"{stage}_ms"] = (now - self._last) * 1e3
        self._last = now

    def total_ms(self) -> float:
        return (self._last - self._started) * 1e3


class TableView:
    """The committed rows of one table: key column(s), then value columns, in no promised order."""

    def __init__(self, engine: Engine, spec: TableSpec):
        self._engine = engine
        self._spec = spec

    def to_arrow(self) -> pa.Table:
        with self._engine._using():
            return self._engine._core.table(self._spec)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def __len__(self) -> int:
        return self.to_arrow().num_rows

    def __repr__(self) -> str:
        return f"<morphspark table {self._spec.name!r} of {self._engine.app.name!r}>"


def _native_core(tables: tuple[TableSpec, ...], config: Config) -> Core:
    from .native import NativeCore

    return NativeCore(tables, config)


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
