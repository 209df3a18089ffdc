"""What an engine writes: a record for each epoch, call and load, snapshots now and then; and what it deletes.

Files are written in threads, in parallel and without the GIL where it matters; the record follows when all of them
are durable. Everything that touches the log runs in the committer's thread, so that numbers come in order.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..columns import Batch
from ..config import Config
from ..core import Core, Outcome, Part, Parts, Progress
from ..errors import FencedError
from ..types import Type
from .committer import Committer
from .early import EarlyOutput
from .failpoints import reach
from .files import FOLDER as DATA
from .files import DataFile, DataWriter, data_files, write_output, write_rows
from .history import History, read_history, read_record
from .records import FOLDER as LOG
from .records import NAME, Advance, Bind, Body, Call, Epoch, Load, Record, Snapshot
from .recovery import EVENTS, ORDER
from .retention import superfluous, with_old_output
from .snapshots import SnapshotWriter
from .store import UNFINISHED, Store, UncertainError
from .workers import Task, Workers

WRITE_THREADS = 2  # changed rows or events, late events; the committer writes the output itself
# With snapshot_every="auto": when the log is as long as what it would replace, so that writing at most doubles and
# reading takes at most twice as long as for the snapshot alone; small states are not worth it more often than this.
AUTO_LOG_BYTES_MIN = 16 << 20
AUTO_RECORDS_MAX = 1000
COMMAND_ADVANTAGE = 2  # how many times smaller commands must be than changed rows, as executing takes longer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Executed:
    """An executed epoch: all that its record says, and what its files will hold."""

    progress: Progress
    types: Mapping[str, Type]
    clock_us: int
    counts: Mapping[str, int]
    rows: pa.Table
    early: EarlyOutput | None  # of the rows; None: none of them are written
    late: pa.Table | None
    event_columns: tuple[str, ...]
    note: Any
    log: EpochLog


class DeltaLog:
    """The rows that an epoch changed."""

    mode = "delta"

    def __init__(self, changes: Sequence[tuple[str, pa.RecordBatch]]):
        self._changes = changes

    def write(self, store: Store) -> DataFile | None:
        return write_rows(store, self._changes)


class CommandLog:
    """The events of an epoch: columns that the program uses, written while it executes; then their order."""

    mode = "command"

    def __init__(self, store: Store, workers: Workers, batch: Batch):
        events = pa.RecordBatch.from_arrays(list(batch.used.values()), names=list(batch.used))
        self._workers = workers
        self._begun: Task[DataWriter] = Task(lambda: _begin_command(store, events))
        self._order: pa.Array | None = None
        self._ended = False  # by `write`

    def begin(self) -> CommandLog:
        self._workers.put(self._begun)
        return self

    def executed(self, outcome: Outcome) -> CommandLog:
        """With the rows that ran, in their order; diverted ones did not."""
        self._order = None if outcome.order is None else outcome.order.drop_null()  # triggers fire by themselves
        return self

    def write(self, store: Store) -> DataFile:
        self._ended = True
        writer = self._begun.result()
        try:
            if self._order is not None:
                writer.add_rows(ORDER, pa.RecordBatch.from_arrays([self._order], names=[ORDER]))
            return writer.finish()
        except BaseException:
            writer.discard()
            raise

    def discard(self) -> None:
        """The epoch failed. Does nothing if `write` has ended it, well or not."""
        if not self._ended and not self._begun.cancel():
            self._workers.do(lambda: self._begun.result().discard())


EpochLog = DeltaLog | CommandLog


def _begin_command(store: Store, events: pa.RecordBatch) -> DataWriter:
    writer = DataWriter(store)
    try:
        writer.add_rows(EVENTS, events)
    except BaseException:
        writer.discard()
        raise
    return writer


class Journal:
    """The one writer of a state directory. Methods that write belong to the committer's thread."""

    def __init__(self, store: Store, history: History, config: Config):
        self.store, self.history, self.config = store, history, config
        self.committer = Committer()
        self.writer_id = uuid.uuid4().hex
        self._writers = Workers("morphspark-write", WRITE_THREADS)
        self._early_writer = Workers("morphspark-early")  # of its own: it waits for what executes, others for the disk
        self._snapshot_writer = Workers("morphspark-snapshot")
        self._snapshot: SnapshotWriter | None = None
        self._leftovers = _leftovers(store, history)
        self._outputs_gone = -1  # the newest record whose output was deleted
        self._count_log()

    @staticmethod
    def create(store: Store, bind: Bind, config: Config) -> Journal:
        """The first record of a new state directory; if another writer made it in this moment, that one's."""
        store.make_folders((LOG, DATA))
        history = History(store, [])
        journal = Journal(store, history, config)
        record, data = Record(0, "", uuid.uuid4().hex, journal.writer_id, now_us(), bind).encoded()
        created = store.put_if_absent(record.file, data)
        found = read_history(store)
        if found is None:
            raise UncertainError(
                f"{store.location}/{record.file} was created and is gone again: somebody deletes records"
            )
        # Not ours: another writer was faster; so much so, perhaps, that its retention had deleted number 0 again.
        if not created or found.first_number != 0 or found.record(0).sha256 != record.sha256:
            journal.close()
            return Journal(store, found, config)
        history.add(record)
        return journal

    # -- what the engine calls

    def log_of(self, batch: Batch, outcome: Outcome, changed: Sequence[tuple[str, pa.RecordBatch]]) -> EpochLog:
        """For log="auto" and "delta": changed rows; or commands, where "auto" finds them to be smaller by far."""
        if self.config.log == "auto":
            given = sum(column.nbytes for column in batch.used.values())
            if given * COMMAND_ADVANTAGE < sum(rows.nbytes for _, rows in changed):
                return self.command(batch).begin().executed(outcome)
        return DeltaLog(changed)

    def command(self, batch: Batch) -> CommandLog:
        return CommandLog(self.store, self._writers, batch)

    def early_output(self, parts: Parts, shape: Callable[[Part], pa.Table]) -> EarlyOutput:
        return EarlyOutput(self.store, self._early_writer, parts, shape)

    def write_epoch(self, executed: Executed) -> Record:
        """Executed → Logged → the record. If it raises, and is not uncertain, nothing happened."""
        reach("epoch.executed")
        late = executed.late if executed.late is not None and len(executed.late) else None
        written = self._write(
            lambda: self._write_output(executed),
            lambda: executed.log.write(self.store),
            *([lambda: write_output(self.store, late)] if late is not None else []),
        )
        output, logged, *diverted = written
        assert output is not None
        body = Epoch(
            executed.progress,
            executed.types,
            executed.clock_us,
            executed.counts,
            executed.log.mode,
            logged,
            output,
            diverted[0] if diverted else None,
            executed.event_columns,
            executed.note,
        )
        return self._append_or_forget(body)

    def _write_output(self, executed: Executed) -> DataFile:
        if executed.early is not None:
            return executed.early.write(executed.rows)
        return write_output(self.store, executed.rows)

    def write_rows(self, rows: Sequence[tuple[str, pa.RecordBatch]], body: Callable[[DataFile | None], Body]) -> Record:
        (file,) = self._write(lambda: write_rows(self.store, rows))
        return self._append_or_forget(body(file))

    def _append_or_forget(self, body: Body) -> Record:
        """If there will surely be no record, its files need not wait for the next opening to go."""
        try:
            return self.append(body)
        except UncertainError:
            raise
        except BaseException:
            for file in body.files:
                self._forget(file.name)
            raise

    def append(self, body: Body) -> Record:
        """The next record. Whoever creates it has committed; the other one stops."""
        last = self.history.last
        record = Record(last.number + 1, last.sha256, last.state, self.writer_id, now_us(), body)
        record, data = record.encoded()
        try:
            if not self.store.put_if_absent(record.file, data):
                raise FencedError(self._taken_over(record))
            self._check_not_cut_off(record)
        except (FencedError, UncertainError) as error:
            self.committer.stop(error)
            raise
        self.history.add(record)
        self._count(body)
        return record

    def _check_not_cut_off(self, record: Record) -> None:
        """A name may be free because a successor has used it and its retention has deleted it: behind a process that
        slept that long, the record before is gone, too, as they are deleted in their order."""
        before = self.history.last
        try:
            self.store.read(before.file, 0, 1)
        except OSError as error:
            raise UncertainError(
                f"{self.store.location}/{record.file} was created, but {before.file}, which it follows, can't be read "
                f"({error}): another writer seems to have taken over long ago"
            ) from error

    def _taken_over(self, record: Record) -> str:
        try:
            other = read_record(self.store, record.number)
            when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(other.written_us / 1e6))
            who = f"writer {other.writer} ({other.kind}, {when})"
        except OSError:
            who = "another writer"
        return (
            f"{self.store.location} was taken over: {who} has written {record.file} before this engine "
            f"(writer {self.writer_id}) could. Nothing of this commit happened, and this engine stopped. One query "
            f"writes to a state directory; end the other one, or leave the state to it"
        )

    def _write(self, *tasks: Callable[[], DataFile | None]) -> list[DataFile | None]:
        """Several data files at once, durable with their names; none of them stays behind if one fails."""
        first, *others = tasks
        begun = [self._writers.do(task) for task in others]
        files: list[DataFile | None] = []
        error: BaseException | None = None
        for get in (first, *(one.result for one in begun)):
            try:
                files.append(get())
            except BaseException as one:
                error = error or one
        try:
            if error is not None:
                raise error
            self.store.sync(DATA)
            reach("data.listed")
        except BaseException:
            for file in files:
                if file is not None:
                    self._forget(file.name)
            raise
        return files

    # -- snapshots

    def step_snapshot(self, core: Core, progress: Progress, types: Mapping[str, Type], seconds: float) -> None:
        """After an epoch, between epochs: go on with a snapshot, or begin one if it is due."""
        if self._snapshot is not None:
            if self._snapshot.step(seconds):
                self._snapshot = None
        elif self._is_due():
            self.committer.settle()  # an image of what is durable, not of what will be
            self.committer.check_running()
            self._snapshot = self._begin_snapshot(core, progress, types)

    def snapshot(self, core: Core, progress: Progress, types: Mapping[str, Type]) -> None:
        """A whole snapshot, now."""
        self.give_up_snapshot()
        writer = self._begin_snapshot(core, progress, types)
        try:
            writer.finish()
        except BaseException:
            writer.give_up()
            raise

    @property
    def is_in_snapshot(self) -> bool:
        """Whether one is under way."""
        return self._snapshot is not None

    def give_up_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.give_up()
            self._snapshot = None

    def _begin_snapshot(self, core: Core, progress: Progress, types: Mapping[str, Type]) -> SnapshotWriter:
        self._epochs_since = self._bytes_since = 0
        last, bind = self.history.last, self.history.bind()
        known = (last.number, last.sha256, bind, progress, types)
        return SnapshotWriter(core, self.store, self._snapshot_writer, known, self._record_snapshot)

    def _record_snapshot(self, body: Snapshot) -> None:
        self.committer.run_behind(lambda: self.append(body)).result()
        reach("snapshot.recorded")
        self.tidy()

    def _is_due(self) -> bool:
        every = self.config.snapshot_every
        if every != "auto":
            return self._epochs_since >= every
        return self._epochs_since >= AUTO_RECORDS_MAX or self._bytes_since > max(AUTO_LOG_BYTES_MIN, self._base_bytes)

    def _count_log(self) -> None:
        """How much log there is behind the newest snapshot."""
        self._epochs_since = self._bytes_since = self._base_bytes = 0
        newest = next(self.history.snapshots(self.history.last.number), None) if self.history.records else None
        for record in self.history.records if newest is None else self.history.after(newest[1].of):
            self._count(record.body)

    def _count(self, body: Body) -> None:
        if isinstance(body, Epoch | Call | Advance):
            self._epochs_since += 1
            self._bytes_since += _length(body.log if isinstance(body, Epoch) else body.rows)
        elif isinstance(body, Load):
            self._base_bytes += _length(body.rows)
        elif isinstance(body, Snapshot):
            self._base_bytes = _length(body.rows)

    # -- deleting

    def tidy(self) -> None:
        """Delete what nothing needs, behind the commits; a failure is told and tried again later."""
        self.committer.run_behind(self._tidy)

    def _tidy(self) -> None:
        if self.committer.stopped is not None or self.history.last.writer != self.writer_id:
            return  # what looks left over may be named by a record that another writer made meanwhile
        try:
            for name in self._leftovers:  # our first record fenced off whoever might still have given them one
                self.store.delete(name)
            self._leftovers = []
            for record in with_old_output(self.history, self.config.retain_epochs, self._outputs_gone):
                for file in record.body.outputs:
                    self._delete(file.name)
                self._outputs_gone = max(record.number, self._outputs_gone)
            self._cut()
        except OSError as error:
            log.warning("what is no longer needed could not be deleted: %s", error)

    def _cut(self) -> None:
        records = superfluous(self.history, self.config.retain_epochs)
        for record in records:
            self.store.delete(record.file)
            reach("retention.record")
        if records:
            self.store.sync(LOG)
            del self.history.records[: len(records)]
        for record in records:
            for file in record.body.files:
                self._delete(file.name)

    def _delete(self, name: str) -> None:
        self.store.delete(name)
        reach("retention.data")

    def _forget(self, name: str) -> None:
        """A file that no record will name; if it stays, a later opening deletes it."""
        try:
            self.store.delete(name)
        except OSError:
            pass

    def close(self) -> None:
        self.committer.settle()
        self.give_up_snapshot()
        # those that ask before those asked
        for workers in (self._snapshot_writer, self._early_writer, self._writers, self.committer):
            workers.close()


def _length(file: DataFile | None) -> int:
    return 0 if file is None else file.length


def _leftovers(store: Store, history: History) -> list[str]:
    """Files that no record names: of commits that a crash, or a writer that lost, did not bring to an end."""
    named = {file.name for record in history.records for file in record.body.files}
    unnamed = [name for name in data_files(store) if name not in named]
    first = history.first_number if history.records else 0
    cut = [name for name in store.files(LOG) if name.endswith(UNFINISHED) or _is_older(name, first)]
    return [*unnamed, *(f"{LOG}/{name}" for name in cut)]


def _is_older(name: str, first: int) -> bool:
    """A record in front of a gap: its deletion did not end."""
    found = NAME.fullmatch(name)
    return found is not None and int(found[1]) < first


def now_us() -> int:
    return time.time_ns() // 1000
