"""The life of a micro-batch, without Spark: sink → pipeline → plan → schedule → execute → log → commit → output.

The sink (sink.py) brings an epoch as Arrow. The pipeline decides what its id means and lets the engine plan, schedule,
execute, log and commit it. The output is a file of the epoch's commit; the sink hands it to the user's writer as a
DataFrame. What an epoch id means, with `last` the one committed last:

    epoch == last + 1     it runs
    epoch == last         Spark repeats it, as the writer failed or Spark did not get to note its success, perhaps
                          because the process died: nothing runs, the stored output is handed over again
    any other             an EpochError that says how to repair it

With `Config(log="none")` state is in memory, and so outputs are files of this pipeline alone, in a folder that goes
when it is closed:

    <path>/output/<opening>/epoch-000000000007.parquet             one row per event
    <path>/output/<opening>/epoch-000000000007-late.parquet        diverted events, if there were any
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from .durable.files import encode_output, output_schema
from .engine import Engine
from .errors import EpochError
from .metrics import ms_since
from .reading import StoredEpoch

PROGRESS = (
    "epoch", "events", "committed", "aborted", "unmatched", "late", "diverted", "state_rows", "state_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """Rows in a Parquet file."""

    file: str
    schema: pa.Schema


@dataclass(frozen=True)
class Output:
    """What a committed epoch hands over; kept until the next one commits, and longer (Config.retain_epochs)."""

    epoch: int
    rows: Stored
    late: Stored | None  # None: no event was diverted
    event_schema: Any  # Spark's, of the event columns, as JSON; only the sink looks into it
    progress: dict[str, Any] = field(compare=False)


class Pipeline(ABC):
    """An engine and the outputs of its last epochs. The caller sees to it that calls come one by one."""

    def __init__(self, engine: Engine):
        self.engine = engine

    def is_next(self, epoch: int) -> bool:
        """True: it must run. False: it is the last one again. Anything else can't be served."""
        following = self.engine.epoch
        if epoch == following:
            return True
        if epoch == following - 1:
            return False
        raise EpochError(_remedy(epoch, following, self.place))

    @property
    @abstractmethod
    def place(self) -> str:
        """Where the state is."""

    @abstractmethod
    def run(self, epoch: int, events: pa.Table, event_schema: Any, order_type: pa.DataType | None = None) -> Output:
        """Run the next epoch. `order_type`: the Arrow type that `_ts` shall have, if not the engine's."""

    @abstractmethod
    def last(self) -> Output:
        """The output of the last epoch."""

    def close(self) -> None:
        self.engine.close()


class DurablePipeline(Pipeline):
    """Outputs are files of the engine's commits, so whatever opens the state next can hand them over."""

    def __init__(self, engine: Engine):
        super().__init__(engine)
        self._output: Output | None = None  # the last one, if this pipeline ran it

    @property
    def place(self) -> str:
        return f"the state in {self.engine.location}"

    def run(self, epoch: int, events: pa.Table, event_schema: Any, order_type: pa.DataType | None = None) -> Output:
        assert epoch == self.engine.epoch
        started = time.perf_counter()
        rows = self.engine.process_for_sink(events, lambda rows: _typed(rows, order_type), event_schema)
        measured = self.engine.metrics[-1]
        counts = {name: measured[name] for name in PROGRESS}
        times = {"process_ms": ms_since(started) - measured["log_ms"], "write_ms": measured["log_ms"]}
        stored = self.engine.last_stored()
        late = self.engine.late
        assert late is not None
        self._output = self._of(stored, rows.schema, late.schema, {**counts, **times})
        return self._output

    def last(self) -> Output:
        stored = self.engine.last_stored()
        if self._output is not None and self._output.epoch == stored.epoch:
            return self._output
        body, store = stored.body, stored.store
        late = None if body.late is None else output_schema(store, body.late)
        diverted = 0 if body.late is None else body.late.sections[0].rows
        rows, size = self.engine.state_size()
        progress = {
            "epoch": stored.epoch,
            "events": body.output.sections[0].rows + diverted,
            **body.counts,
            "diverted": diverted,
            "state_rows": rows,
            "state_bytes": size,
            "process_ms": 0.0,
            "write_ms": 0.0,
        }
        return self._of(stored, output_schema(store, body.output), late, progress)

    def _of(self, stored: StoredEpoch, rows: pa.Schema, late: pa.Schema | None, progress: dict[str, Any]) -> Output:
        body, store = stored.body, stored.store
        return Output(
            stored.epoch,
            Stored(store.path(body.output.name), rows),
            None if body.late is None or late is None else Stored(store.path(body.late.name), late),
            body.note,
            progress,
        )


class MemoryPipeline(Pipeline):
    """State and outputs belong together and live equally long: each opening has a folder of its own."""

    place = "the state"

    def __init__(self, engine: Engine, path: str | os.PathLike[str]):
        super().__init__(engine)
        opening = f"{time.strftime('%Y%m%dT%H%M%S')}-{uuid.uuid4().hex[:8]}"
        self.folder = Path(path) / "output" / opening
        self.folder.mkdir(parents=True)  # now, as a folder that can't be written must be known before a commit
        self._store: Callable[[], Output] | None = None  # set while an epoch is committed, but not stored
        self._output: Output | None = None

    def run(self, epoch: int, events: pa.Table, event_schema: Any, order_type: pa.DataType | None = None) -> Output:
        assert epoch == self.engine.epoch
        started = time.perf_counter()
        rows = self.engine.process(events)
        process_ms = ms_since(started)
        late = self.engine.late
        # From here on the epoch is committed: if a write fails (a full disk), a repetition writes again.
        self._store = lambda: self._stored(epoch, _typed(rows, order_type), late, event_schema, process_ms)
        return self.last()

    def last(self) -> Output:
        if self._store is not None:
            self._output = self._store()
            self._store = None
            self._prune(self._output.epoch)
        if self._output is None or self._output.epoch != self.engine.epoch - 1:
            raise EpochError(
                f"the output of epoch {self.engine.epoch - 1} is lost, as its run was interrupted; start "
                f"over with a new Sink and a fresh checkpointLocation"
            )
        return self._output

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _stored(
        self, epoch: int, rows: pa.Table, late: pa.Table | None, event_schema: Any, process_ms: float
    ) -> Output:
        started = time.perf_counter()
        name = f"epoch-{epoch:012}"
        stored = self._write(f"{name}.parquet", rows)
        stored_late = self._write(f"{name}-late.parquet", late) if late is not None and len(late) else None
        counts = {name: self.engine.metrics[-1][name] for name in PROGRESS}
        progress = {**counts, "process_ms": process_ms, "write_ms": ms_since(started)}
        return Output(epoch, stored, stored_late, event_schema, progress)

    def _write(self, name: str, rows: pa.Table) -> Stored:
        """Under another name first: a file that has its name is whole."""
        file, unfinished = self.folder / name, self.folder / f".{name}.unfinished"
        with open(unfinished, "wb") as written:
            written.write(encode_output(rows))
        os.replace(unfinished, file)
        return Stored(str(file), rows.schema)

    def _prune(self, epoch: int) -> None:
        oldest = epoch - self.engine.config.retain_epochs + 1
        for file in self.folder.glob("epoch-*.parquet"):
            if int(file.name.split("-")[1].split(".")[0]) < oldest:
                file.unlink(missing_ok=True)


def _remedy(epoch: int, following: int, place: str) -> str:
    if following == 0:
        return (
            f"epoch {epoch} arrived first, but {place} is empty and starts with epoch 0. The query's checkpoint was "
            f"kept and its state was not (deleted, moved, in memory only, or the path is another one): bring the state "
            f"back, or start over with a fresh checkpointLocation (delete the old one, or name another)"
        )
    if epoch < following:
        return (
            f"epoch {epoch} arrived, but epochs up to {following - 1} are committed and only the last can be "
            f"repeated. {place[0].upper()}{place[1:]} was kept and the query's checkpoint was not, or was set back: "
            f"bring the checkpoint back, or start over with both new (another path, another checkpointLocation)"
        )
    return (
        f"epoch {epoch} arrived, but epoch {following} is next: epochs {following} to {epoch - 1} never came "
        f"here, or {place} is an older copy. Every micro-batch of the query must be given to this sink: bring the "
        f"newer state back, or start over with both new (another path, another checkpointLocation)"
    )


def _typed(rows: pa.Table, order_type: pa.DataType | None) -> pa.Table:
    if order_type is None:
        return rows
    index = rows.schema.get_field_index("_ts")
    return rows.set_column(index, "_ts", rows.column(index).cast(order_type))
