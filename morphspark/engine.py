"""An engine: shared state, and epochs of transactions over it.

In memory an epoch is Admitted → Executed → Committed. With a path it is Admitted → Executed → Logged → Committed:
its record is on the disk before it is visible (durable/committer.py).
"""

from __future__ import annotations

import contextlib
import operator
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from . import types
from .app import App, Table
from .bind import BoundProgram, bind, check_passing
from .callee import check_log
from .calls import CallResult, call_batch, call_program, idle_batch, moment_of
from .columns import Batch, admit, as_table, canonical, check_strings, one_chunk
from .config import Config
from .core import Moment, Outcome, Progress
from .draws import between_epochs, run_of
from .durable import early
from .durable.binding import check_evolve, check_query
from .durable.directory import table_at
from .durable.early import EarlyOutput
from .durable.failpoints import reach
from .durable.files import DataFile, read_output
from .durable.history import History, beside_a_writer, read_more
from .durable.journal import CommandLog, Executed, Journal, now_us
from .durable.opening import open_to_read, open_to_write
from .durable.records import Advance, Bind, Body, Call, Epoch, Load
from .durable.recovery import MakeCore, Recovered, replay
from .durable.store import Store, open_store
from .durable.workers import Task, Workers
from .errors import ClosedError, ConfigError, EpochError, LimitError, SchemaError
from .explain import Explanation
from .metrics import Metrics, breakdown, main_strategy
from .program import TableSpec, declared
from .results import PartResults, result_table
from .strategy import check_names
from .trace import unknown_name
from .types import Type


@dataclass(frozen=True)
class _Committed:
    """What the engine knows after a commit. Replaced whole, so that an interrupt never leaves half of it."""

    progress: Progress
    types: Mapping[str, Type]  # of the event columns seen so far
    commits: int = 0  # of the core: when it has made so many, this is what holds
    bound: BoundProgram | None = None
    late: pa.Table | None = None


@dataclass(frozen=True)
class _Ended:
    """An epoch that is committed, or on its way."""

    rows: pa.Table
    durable: Future[pa.Table]
    log: str = "none"  # delta, command


@dataclass(frozen=True)
class StoredEpoch:
    """A committed epoch in a state directory."""

    epoch: int
    body: Epoch
    store: Store


class Engine:
    """Use as a context manager, or call `close()`. Calls from several threads run one after the other; only reads of
    tables wait for none of them."""

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
        self._committed = self._prepared = _Committed(state.progress, known, state.core.commits)

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
        committed = self._settled()
        if committed.late is None and committed.progress.epoch and self._history is not None:
            return self._stored_late()
        return committed.late

    def process(self, data: Any, epoch: int | None = None) -> pa.Table:
        """Run one epoch: admit → plan and execute → log → commit → output. All of it happens, or nothing.

        `epoch`: the id that its source gives it. If it is the last committed one, nothing runs and what it gave then
        is given again (durable engines); if it is neither that nor the next one, it is an error.
        """
        with self._using():
            if epoch is not None and epoch != (following := self._visible().progress.epoch):
                if epoch == following - 1 and self._history is not None:
                    return self._stored_rows()
                raise EpochError(f"epoch {epoch} can't run, as epoch {following} is next")
            return self._run(data).rows

    def process_for_sink(self, data: Any, present: Callable[[pa.Table], pa.Table], note: Any) -> pa.Table:
        """As `process`, for the pipeline: keeps the output as `present` shapes it, and a note (JSON) beside it."""
        with self._using():
            return self._run(data, present=present, note=note).rows

    def last_stored(self) -> StoredEpoch:
        """What the last committed epoch left in the state directory."""
        with self._using():
            return self._last_epoch()

    def submit(self, data: Any) -> Future[pa.Table]:
        """Run one epoch; its future is done when it is durable. The next epoch may execute while this one is written.

        Epochs become durable in their order. If one can't be written, its future and those of all later ones fail,
        and the engine must be opened again. Reading a table waits until all that was submitted is durable.
        """
        with self._using(ahead=True):
            return self._run(data, ahead=True).durable

    def _run(
        self,
        data: Any,
        ahead: bool = False,
        present: Callable[[pa.Table], pa.Table] | None = None,
        note: Any = None,
    ) -> _Ended:
        """`present` gives the output another shape before it is kept; `note` is kept with it."""
        self._check_epochs_allowed()
        self._step_snapshot()
        clock = _Clock()
        before = self._visible()
        config = self.config
        batch = admit(data, self.program, before.types, config.max_epoch_rows, config.max_string_bytes)
        bound = self._bind(batch, before)
        check_passing(bound, batch.events.schema)
        clock.lap("admit")
        begun: list[CommandLog | EarlyOutput] = []  # files that are written while the epoch executes
        commits = self._core.commits
        try:
            command = self._command(batch)
            early_output = self._early_output(bound, batch, before.progress.epoch, present)
            begun += [one for one in (command, early_output) if one is not None]
            for one in begun:
                one.begin()
            moment = self._moment(before.progress.epoch)
            parts = None if early_output is None else early_output.parts
            outcome = self._core.execute(bound, batch, before.progress, self.app.late, moment, parts=parts)
            clock.lap("core")
            self._check_state_size()
            result = self._output(batch, outcome, before.progress.epoch)
            rows = result if present is None else present(result)
            progress = _after(outcome, before.progress.epoch + 1)
            late = self._diverted(batch, outcome)
            kinds = {**before.types, **batch.types}
            self._prepared = _Committed(progress, kinds, self._core.commits + 1, bound, late)
            if self._journal is None:
                self._core.commit()
                ended = _Ended(rows, _done(rows))
            else:
                if command is not None:
                    log = command.executed(outcome)
                else:
                    log = self._journal.log_of(batch, outcome, self._changes())
                names = tuple(batch.events.column_names)
                executed = Executed(
                    progress, kinds, moment.wall_us, outcome.counts, rows, early_output, late, names, note, log
                )
                clock.lap("output")
                ended = self._log(executed, ahead)
        except BaseException:
            self._undo()
            if self._core.commits == commits:
                for one in begun:
                    one.discard()
            raise
        self._visible()
        clock.lap("log" if self._journal is not None else "output")
        self._measure(progress.epoch - 1, batch, outcome, clock, ended.log)
        return ended

    def _log(self, executed: Executed, ahead: bool) -> _Ended:
        """Executed → Logged → Committed; with `ahead`, visible before it is logged."""
        journal = self._journal
        assert journal is not None

        def write() -> pa.Table:
            journal.write_epoch(executed)
            return executed.rows

        def show() -> None:
            self._core.commit()
            reach("epoch.committed")

        if ahead:
            durable = self._tell(journal.committer.commit_ahead(write, show))
        else:
            durable = _done(journal.committer.commit(write, show))
        journal.tidy()
        return _Ended(executed.rows, durable, executed.log.mode)

    def _tell(self, task: Task[pa.Table]) -> Future[pa.Table]:
        """A future for users, resolved in a thread that nothing else depends on: callbacks may take their time."""
        future: Future[pa.Table] = Future()
        future.set_running_or_notify_cancel()  # an epoch that is executed can't be cancelled
        if self._teller is None:
            self._teller = Workers("morphspark-tell")
        self._teller.do(lambda: _resolve(future, task))
        return future

    def _command(self, batch: Batch) -> CommandLog | None:
        """With log="command" the events are written while they execute."""
        if self._journal is None or self.config.log != "command":
            return None
        return self._journal.command(batch)

    def _early_output(
        self, bound: BoundProgram, batch: Batch, epoch: int, present: Callable[[pa.Table], pa.Table] | None
    ) -> EarlyOutput | None:
        """In large epochs the output of one batch is written while the next one executes."""
        if self._journal is None or batch.rows < early.EPOCH_ROWS_MIN:
            return None
        parts = self._core.parts(bound, early.PATIENT)
        if parts is None:
            return None
        results = PartResults(batch.events, epoch)
        return self._journal.early_output(
            parts, lambda part: results.of(part) if present is None else present(results.of(part))
        )

    def _changes(self) -> list[tuple[str, pa.RecordBatch]]:
        found = ((spec.name, self._core.changes(spec)) for spec in self.program.tables)
        return [(name, rows) for name, rows in found if rows.num_rows]

    def _undo(self) -> None:
        """After an error or an interrupt: what did not commit did not happen. Does nothing after a commit."""
        if self._journal is not None:
            self._journal.committer.wait_shown()
        self._core.rollback()

    def _settled(self) -> _Committed:
        """What is committed, durable and visible. Waits for what an interrupted or submitted call left to write."""
        if self._journal is not None and not self._busy and not self._closed:
            self._journal.committer.settle()
        return self._visible()

    def _visible(self) -> _Committed:
        """The core's commit decides: an interrupt just after it must not lose the epoch."""
        if self._core.commits == self._prepared.commits:
            self._committed = self._prepared
        return self._committed

    def _step_snapshot(self) -> None:
        """Between epochs: read a little of a snapshot that is under way, in a share of what the last epoch took."""
        if self._journal is not None and len(self.metrics):
            known, last = self._visible(), self.metrics[-1]
            self._journal.step_snapshot(self._core, known.progress, known.types, last["total_ms"] / 1e3)

    # -- ad-hoc transactions

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
                here = Progress(before.progress.epoch, clock=before.progress.watermark)
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

    def _moment(self, epoch: int, part: int = 0) -> Moment:
        clock = self.config.clock
        wall_us = now_us() if clock is None else clock()
        if isinstance(wall_us, bool) or not hasattr(wall_us, "__index__") or not -(2**63) <= wall_us < 2**63:
            raise ConfigError(f"Config(clock=…) gave {wall_us!r}; expected microseconds since 1970 UTC, a whole number")
        return Moment(run_of(self.program.seed, epoch, part), operator.index(wall_us))

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
                    _after(outcome, before.progress.epoch),
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

    def explain(self, data: Any) -> Explanation:
        """The task precedence graph that these events would make, and how it would be run. Changes nothing."""
        with self._using():
            before = self._visible()
            config = self.config
            batch = admit(data, self.program, before.types, config.max_epoch_rows, config.max_string_bytes)
            found = self._core.explain(self._bind(batch, before), batch, before.progress)
            return Explanation(self.program, config, found)

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

    def _load_durably(self, journal: Journal, spec: TableSpec, rows: pa.RecordBatch) -> None:
        journal.committer.commit(
            lambda: journal.write_rows([(spec.name, rows)], lambda file: Load(spec.name, file)),
            lambda: self._core.load(spec, rows),
        )

    def table(self, name: str | Table) -> TableView:
        """The committed rows of a table, given by its name or as what `app.table(…)` returned."""
        self._check_usable()
        return TableView(self, self._spec(name))

    def tables(self, *names: str | Table) -> dict[str, pa.Table]:
        """The committed rows of several tables (without names: of all), as one and the same commit left them."""
        self._check_usable()
        specs = [self._spec(name) for name in names] or list(self.program.tables)
        return dict(zip([spec.name for spec in specs], self._read(specs), strict=True))

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

    # -- the state directory

    def snapshot(self) -> None:
        """Write a snapshot now, all of it; they are also written by themselves (Config.snapshot_every)."""
        with self._using():
            journal = self._writing_journal("snapshot()")
            known = self._visible()
            journal.snapshot(self._core, known.progress, known.types)

    def refresh(self) -> int:
        """Let a read-only engine catch up with the query that writes; the id of its next epoch."""
        with self._using():
            if not self.read_only or self._history is None:
                raise ConfigError("refresh() is for an engine opened with read_only=True; others are always up to date")
            self._catch_up(self._history)
            return self._visible().progress.epoch

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

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"next epoch {self._visible().progress.epoch}"
        return f"<morphspark engine of {self.app.name!r}: {state}>"

    # -- inside

    @contextlib.contextmanager
    def _using(self, ahead: bool = False) -> Iterator[None]:
        """Alone, on an open engine of this process, after all that was committed; `ahead`: durable or not."""
        self._check_usable()  # before the lock, which a fork may have copied while it was held
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
        """Not inside of a call that this thread has under way."""
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

    def _check_epochs_allowed(self) -> None:
        self._check_writable()
        if self._history is None:
            return
        query = self._history.bind().query
        if query is not None and query != self._query_id:
            raise EpochError(
                f"{self._history.store.location} holds the state of query {query}, which counts its epochs: one from "
                f"elsewhere would make it lose events. Use engine.call(…) for single transactions; to take the query's "
                f"place, open it with query_id={query!r}"
            )

    def _catch_up(self, history: History) -> None:
        """Apply what was written since; start over where that can't be: the log was cut, or the app has changed."""
        known = self._visible()
        more = read_more(history)
        evolved = any(isinstance(one.body, Bind) and one.body.program != self.program for one in more)
        if self._half_read or not more or evolved:
            self._history, state = open_to_read(history.store, self.program, self.config, self._make_core)
            self._core.close()
        else:
            state = Recovered(self._core, history.bind(), known.progress, known.types)
            self._half_read = True
            replay(state, history.store, more, self._make_core, self.config)
            for record in more:
                history.add(record)
        self._start(state)
        self._half_read = False

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
        events = {
            name: self._core.gather(one_chunk(batch.events.column(name)), outcome.order)
            for name in batch.events.column_names
        }
        return result_table(events, outcome.columns, epoch)

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

    def _measure(self, epoch: int, batch: Batch, outcome: Outcome, clock: _Clock, log: str) -> None:
        rows, size = self._core.state_size()
        self.metrics.add(
            {
                "epoch": epoch,
                "events": batch.rows,
                **outcome.counts,
                "diverted": 0 if outcome.diverted is None else len(outcome.diverted),
                "strategy": main_strategy(outcome.batches),
                "threads": self.config.thread_count,
                "state_rows": rows,
                "state_bytes": size,
                "log": log,
                "snapshot": self._journal is not None and self._journal.is_in_snapshot,
                "total_ms": clock.total_ms(),
                **clock.laps_ms,
                **{f"core_{stage}_ms": seconds * 1e3 for stage, seconds in outcome.seconds.items()},
                **breakdown(outcome.batches),
                "python": dict(outcome.python),
                "batches": list(outcome.batches),
            }
        )


def _after(outcome: Outcome, epoch: int) -> Progress:
    return Progress(epoch, outcome.watermark, outcome.last_key, outcome.clock, outcome.last_event)


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

    def __init__(self, engine: Engine, name: str, epoch: int):
        self._engine, self._name, self._epoch = engine, name, epoch

    def to_arrow(self) -> pa.Table:
        return self._engine._table_at(self._name, self._epoch)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def __len__(self) -> int:
        return self.to_arrow().num_rows

    def __repr__(self) -> str:
        return f"<morphspark table {self._name!r} of {self._engine.app.name!r} after epoch {self._epoch}>"


def _done(rows: pa.Table) -> Future[pa.Table]:
    future: Future[pa.Table] = Future()
    future.set_result(rows)
    return future


def _resolve(future: Future[pa.Table], task: Task[pa.Table]) -> None:
    task.wait()
    if task.cancelled:
        future.set_exception(ClosedError("an interrupt came before the epoch was logged; it did not happen"))
    elif task.error is not None:
        future.set_exception(task.error)
    else:
        future.set_result(task.result())


def _canonical_table(rows: pa.Table) -> pa.Table:
    return pa.table({name: canonical(one_chunk(rows.column(name))) for name in rows.column_names})


def _native_core(tables: tuple[TableSpec, ...], config: Config) -> Any:
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
