"""An engine: shared state, and epochs of transactions over it.

In memory an epoch is Admitted → Executed → Committed. With a path it is Admitted → Executed → Logged → Committed:
its record is on the disk before it is visible (durable/committer.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .between import Between
from .bind import BoundProgram, check_passing
from .columns import Batch, admit, one_chunk
from .core import Outcome
from .durable import early
from .durable.early import EarlyOutput
from .durable.failpoints import reach
from .durable.journal import CommandLog, Executed
from .durable.workers import Task, Workers
from .errors import ClosedError, EpochError
from .explain import Explanation
from .metrics import breakdown, main_strategy, parts
from .opened import Committed, after
from .results import PartResults, result_table


@dataclass(frozen=True)
class _Ended:
    """An epoch that is committed, or on its way."""

    rows: pa.Table
    durable: Future[pa.Table]
    log: str = "none"  # delta, command


class Engine(Between):
    """Use as a context manager, or call `close()`. Calls from several threads run one after the other; only reads of
    tables wait for none of them."""

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

    def submit(self, data: Any) -> Future[pa.Table]:
        """Run one epoch; its future is done when it is durable. The next epoch may execute while this one is written.

        Epochs become durable in their order. If one can't be written, its future and those of all later ones fail,
        and the engine must be opened again. Reading a table waits until all that was submitted is durable.
        """
        with self._using(ahead=True):
            return self._run(data, ahead=True).durable

    def explain(self, data: Any) -> Explanation:
        """The task precedence graph that these events would make, and how it would be run. Changes nothing.

        Late events are in it, unless they would be diverted.
        """
        with self._using():
            before = self._visible()
            config = self.config
            batch = admit(data, self.program, before.types, config.max_epoch_rows, config.max_string_bytes)
            late = "admit" if self.app.late == "fail" else self.app.late
            found = self._core.explain(self._bind(batch, before), batch, before.progress, late)
            return Explanation(self.program, config, found)

    # -- inside

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
            progress = after(outcome, before.progress.epoch + 1)
            late = self._diverted(batch, outcome)
            kinds = {**before.types, **batch.types}
            self._prepared = Committed(progress, kinds, self._core.commits + 1, bound, late)
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

    def _step_snapshot(self) -> None:
        """Between epochs: read a little of a snapshot that is under way, in a share of what the last epoch took."""
        if self._journal is not None and len(self.metrics):
            known, last = self._visible(), self.metrics[-1]
            self._journal.step_snapshot(self._core, known.progress, known.types, last["total_ms"] / 1e3)

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
        batches = [{**one, "parts": parts(one)} for one in outcome.batches]
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
                **breakdown(batches),
                "python": dict(outcome.python),
                "batches": batches,
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
