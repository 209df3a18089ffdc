"""An engine that is open: its core, its state directory, what is committed; who may use it, and until when.

Everything that an engine does stands on this: reading (reading.py), what happens between epochs (between.py), and
epochs (engine.py), each a class on top of the one before.
"""

from __future__ import annotations

import contextlib
import logging
import operator
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from .app import App, Table
from .bind import BoundProgram, bind
from .callee import check_log
from .columns import Batch
from .config import Config
from .core import Moment, Outcome, Progress
from .draws import run_of
from .durable.binding import check_evolve
from .durable.history import History, read_more
from .durable.journal import Journal, now_us
from .durable.opening import open_to_read, open_to_write
from .durable.records import Bind
from .durable.recovery import MakeCore, Recovered, replay
from .durable.store import Store, open_store
from .durable.workers import Workers
from .errors import ClosedError, ConfigError, EpochError, LimitError, SchemaError, StateError
from .metrics import Metrics
from .program import TableSpec, declared
from .strategy import check_names
from .types import Type

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Committed:
    """What the engine knows after a commit. Replaced whole, so that an interrupt never leaves half of it."""

    progress: Progress
    types: Mapping[str, Type]  # of the event columns seen so far
    commits: int = 0  # of the core: when it has made so many, this is what holds
    bound: BoundProgram | None = None
    late: pa.Table | None = None


class Opened:
    """What all parts of an engine share."""

    def __init__(
        self,
        app: App,
        path: str | os.PathLike[str] | Store | None = None,
        config: Config | None = None,
        make_core: MakeCore | None = None,
        read_only: bool = False,
        evolve: str | None = None,
        query_id: str | None = None,
    ):
        if not isinstance(app, App):
            raise ConfigError(f"Engine(app=…): expected an ms.App, got a {type(app).__name__}")
        if isinstance(path, Config):
            raise ConfigError("app.open(…): the first argument is a path; write app.open(config=ms.Config(…))")
        if config is not None and not isinstance(config, Config):
            raise ConfigError(f"config=…: expected an ms.Config(…), got a {type(config).__name__}")
        check_evolve(evolve)
        self.app = app
        self.program = app.program
        self.config = check_log(self.program, config or Config(), path is not None)
        self.metrics = Metrics()
        if isinstance(self.config.strategy, Mapping):
            check_names(self.config.strategy, [one.name for one in self.program.transactions])
        self.read_only = read_only
        self._make_core = make_core or _native_core
        self._query_id = query_id
        self._journal: Journal | None = None
        self._history: History | None = None
        self._lock = threading.RLock()
        self._closed = False
        self._busy = False  # a call is under way; the lock lets its own thread in again, from a signal handler
        self._close_wanted = False
        self._half_read = False  # a refresh was interrupted
        self._teller: Workers | None = None  # resolves the futures of `submit`
        self._aborted_calls = 0
        self._no_late: tuple[pa.Schema, pa.Table] | None = None  # events' schema, and no late event of it
        self._process = os.getpid()
        self._start(self._open(path, evolve))

    def _open(self, path: str | os.PathLike[str] | Store | None, evolve: str | None) -> Recovered:
        if path is None:
            if self.read_only or evolve or self._query_id:
                raise ConfigError("read_only, evolve and query_id are about a state directory: give its path")
            core = self._make_core(self.program.tables, self.config)
            return Recovered(core, Bind(self.app.name, self.program, None), Progress(), {})
        if self.config.log == "none":
            raise ConfigError('log="none" keeps nothing: open the engine without a path, or with another log')
        store = open_store(path, self.config.fsync)
        if self.read_only:
            self._history, state = open_to_read(store, self.program, self.config, self._make_core)
        else:
            self._journal, state = open_to_write(
                store, self.program, self.config, self._make_core, self._query_id, evolve
            )
            self._history = self._journal.history
        return state

    def _start(self, state: Recovered) -> None:
        self._core = state.core
        known = {**(self.app.events or {}), **state.types}
        self._committed = self._prepared = Committed(state.progress, known, state.core.commits)

    @property
    def epoch(self) -> int:
        """The id of the next epoch; `epoch - 1` is the last committed one."""
        return self._settled().progress.epoch

    @property
    def watermark(self) -> Any:
        """The largest timestamp of any committed event: microseconds for a timestamp column."""
        return self._settled().progress.watermark

    @property
    def location(self) -> str | None:
        """Where the state directory is; None in memory."""
        return None if self._history is None else self._history.store.location

    def state_size(self) -> tuple[int, int]:
        """Rows and bytes of all tables."""
        with self._using():
            return self._core.state_size()

    @property
    def stopped(self) -> BaseException | None:
        """Why the engine must be opened again, if it must."""
        return self._journal.committer.stopped if self._journal is not None else None

    # -- life

    def close(self) -> None:
        """Free the state. Closing twice is fine; an engine inherited through fork is left to its own process."""
        if os.getpid() != self._process:
            self._closed = True  # the lock may be held by a thread that exists only there
            return
        if self._core.calls_here():
            self._close_wanted = True
            return
        with self._lock:
            if self._busy:  # a signal handler closes it under a running epoch: let that end first
                self._close_wanted = True
                return
            if not self._closed:
                if self._journal is not None:
                    self._journal.close()
                if self._teller is not None:
                    self._teller.close()
                self._core.close()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"next epoch {self._visible().progress.epoch}"
        return f"<morphspark engine of {self.app.name!r}: {state}>"

    # -- who may use it, and when

    @contextlib.contextmanager
    def _using(self, ahead: bool = False) -> Iterator[None]:
        """Alone, on an open engine of this process, after all that was committed; `ahead`: durable or not."""
        self._check_usable()  # before the lock, which a fork may have copied while it was held
        self._check_outside()  # the call that a function belongs to has the lock until that returns
        with self._lock:
            self._check_usable()
            self._check_outside()
            self._busy = True
            try:
                if self._journal is not None:
                    committer = self._journal.committer
                    committer.wait_shown() if ahead else committer.settle()
                    committer.check_running()
                self._core.rollback()  # an interrupt may have left an executed epoch
                if self._half_read and self._history is not None:
                    self._catch_up(self._history)
                yield
            finally:
                self._busy = False
                if self._close_wanted:
                    self.close()

    def _check_outside(self) -> None:
        """Not inside of a call that this thread has under way, nor of a function that the engine calls anywhere."""
        if self._core.calls_here():
            raise EpochError(
                "a function can't use the engine that calls it; read rows in the transaction and pass them to it"
            )
        if self._busy and self._lock._is_owned():  # type: ignore[attr-defined]
            raise EpochError(
                "the engine is at work in this thread: a signal handler (or a callback) can't use it until the "
                "call that it interrupted returns; set a flag there and act on it afterwards"
            )

    def _check_usable(self) -> None:
        if self._closed:
            raise ClosedError("the engine is closed; open a new one with app.open()")
        if os.getpid() != self._process:
            raise ClosedError("the engine was opened in another process (before a fork); open one in this process")

    def _check_writable(self) -> None:
        if self.read_only:
            raise EpochError("the engine was opened with read_only=True: it can't change the state")

    def _writing_journal(self, what: str) -> Journal:
        self._check_writable()
        if self._journal is None:
            raise ConfigError(f"{what} needs a state directory: app.open(path)")
        return self._journal

    # -- what is committed

    def _settled(self) -> Committed:
        """What is committed, durable and visible. Waits for what an interrupted or submitted call left to write."""
        if self._journal is not None and not self._busy and not self._closed:
            self._journal.committer.settle()
        return self._visible()

    def _visible(self) -> Committed:
        """The core's commit decides: an interrupt just after it must not lose the epoch."""
        if self._core.commits == self._prepared.commits:
            self._committed = self._prepared
        return self._committed

    def _undo(self) -> None:
        """After an error or an interrupt: what did not commit did not happen. Does nothing after a commit."""
        if self._journal is not None:
            self._journal.committer.wait_shown()
        self._core.rollback()

    def _catch_up(self, history: History) -> None:
        """Apply what was written since; start over where that can't be: the log was cut, or the app has changed."""
        try:
            if not self._half_read and self._follow(history):
                return
        except (StateError, FileNotFoundError) as error:
            # A writer's retention may have deleted what was listed. If it is damaged, it is found to be so again.
            log.info("what was written since can't be applied, so all is read anew: %s", error)
        self._history, state = open_to_read(history.store, self.program, self.config, self._make_core)
        self._core.close()
        self._start(state)
        self._half_read = False

    def _follow(self, history: History) -> bool:
        """Apply the records that were added; False if that is not enough."""
        more = read_more(history)
        if more is None or any(isinstance(one.body, Bind) and one.body.program != self.program for one in more):
            return False
        if not more:
            return True
        known = self._visible()
        state = Recovered(self._core, history.bind(), known.progress, known.types)
        self._half_read = True
        replay(state, history.store, more, self._make_core, self.config)
        for record in more:
            history.add(record)
        self._start(state)
        self._half_read = False
        return True

    # -- for all that executes

    def _bind(self, batch: Batch, before: Committed) -> BoundProgram:
        if before.bound is None or before.bound.events != batch.types:
            return bind(self.program, batch.types)
        return before.bound

    def _moment(self, epoch: int, part: int = 0) -> Moment:
        clock = self.config.clock
        wall_us = now_us() if clock is None else clock()
        if isinstance(wall_us, bool) or not hasattr(wall_us, "__index__") or not -(2**63) <= wall_us < 2**63:
            raise ConfigError(f"Config(clock=…) gave {wall_us!r}; expected microseconds since 1970 UTC, a whole number")
        return Moment(run_of(self.program.seed, epoch, part), operator.index(wall_us))

    def _changes(self) -> list[tuple[str, pa.RecordBatch]]:
        found = ((spec.name, self._core.changes(spec)) for spec in self.program.tables)
        return [(name, rows) for name, rows in found if rows.num_rows]

    def _check_state_size(self, more: int = 0) -> None:
        size = self._core.state_size(enough=self.config.max_state_bytes - more)[1] + more
        if size > self.config.max_state_bytes:
            raise LimitError(
                f"the state would take {size} bytes, more than max_state_bytes={self.config.max_state_bytes}; "
                f"nothing was changed. Delete rows, raise the limit, or use a larger machine"
            )

    def _spec(self, name: str | Table) -> TableSpec:
        if isinstance(name, Table):
            if name.spec not in map(declared, self.program.tables):
                raise SchemaError(f"table {name.name!r} is not one of app {self.app.name!r} as this engine opened it")
            return self.program.table(name.name)
        for spec in self.program.tables:
            if spec.name == name:
                return spec
        names = ", ".join(spec.name for spec in self.program.tables)
        raise SchemaError(f"app {self.app.name!r} has no table {name!r} (tables: {names or 'none'})")


def _native_core(tables: tuple[TableSpec, ...], config: Config) -> Any:
    from .native import NativeCore

    return NativeCore(tables, config)


def after(outcome: Outcome, epoch: int) -> Progress:
    return Progress(epoch, outcome.watermark, outcome.last_key, outcome.clock, outcome.last_event)
