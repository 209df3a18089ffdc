"""The life of a micro-batch, without Spark: sink → pipeline → plan → schedule → execute → commit → output.

The sink (sink.py) brings an epoch as Arrow. The pipeline decides what its id means, lets the engine plan,
schedule, execute and commit it, and stores the output as files. The sink then hands the files to the user's
writer as DataFrames. What an epoch id means, with `last` the one committed last:

    epoch == last + 1     it runs
    epoch == last         Spark repeats it, as the writer failed or Spark did not get to note its success:
                          nothing runs, the stored output is handed over again
    any other             an EpochError that says how to repair it

State and outputs belong together and live equally long: each opening has a folder of its own, so that files
left behind by an earlier run are never taken for those of this one.

    <path>/output/<opening>/epoch-000000000007.parquet             one row per event
    <path>/output/<opening>/epoch-000000000007-late.parquet        diverted events, if there were any
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .engine import Engine
from .errors import EpochError
from .metrics import ms_since

# Columns in which the same few values come again and again.
FEW_VALUES = ("_status", "_reason", "_epoch", "_kind")
# Large epochs are cut into groups that Spark's tasks can read in parallel.
ROW_GROUP_ROWS = 1 << 17

PROGRESS = (
    "epoch", "events", "committed", "aborted", "unmatched", "late", "diverted", "state_rows", "state_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """Rows in a Parquet file."""

    file: Path
    schema: pa.Schema


@dataclass(frozen=True)
class Output:
    """What a committed epoch hands over; kept until the next one commits."""

    epoch: int
    rows: Stored
    late: Stored | None  # None: no event was diverted
    event_schema: Any  # Spark's, of the event columns; only the sink looks into it
    progress: dict[str, Any] = field(compare=False)


class Pipeline:
    """An engine and the outputs of its last epochs. The caller sees to it that calls come one by one."""

    def __init__(self, engine: Engine, path: str | os.PathLike[str]):
        self.engine = engine
        opening = f"{time.strftime('%Y%m%dT%H%M%S')}-{uuid.uuid4().hex[:8]}"
        self.folder = Path(path) / "output" / opening
        self.folder.mkdir(parents=True)  # now, as a folder that can't be written must be known before a commit
        self._store: Callable[[], Output] | None = None  # set while an epoch is committed, but not stored
        self._output: Output | None = None

    def is_next(self, epoch: int) -> bool:
        """True: it must run. False: it is the last one again. Anything else can't be served."""
        following = self.engine.epoch
        if epoch == following:
            return True
        if epoch == following - 1:
            return False
        raise EpochError(_remedy(epoch, following))

    def run(self, epoch: int, events: pa.Table, event_schema: Any, order_type: pa.DataType | None = None) -> Output:
        """Run the next epoch. `order_type`: the Arrow type that `_ts` shall have, if not the engine's."""
        assert epoch == self.engine.epoch
        started = time.perf_counter()
        rows = self.engine.process(events)
        process_ms = ms_since(started)
        late = self.engine.late
        # From here on the epoch is committed: if a write fails (a full disk), a repetition writes again.
        self._store = lambda: self._stored(epoch, _typed(rows, order_type), late, event_schema, process_ms)
        return self.last()

    def last(self) -> Output:
        """The output of the last epoch."""
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
        """Free the state, and the outputs that could only be repeated as long as it was there."""
        self.engine.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- files

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
        pq.write_table(
            rows,
            unfinished,
            compression="lz4",
            row_group_size=ROW_GROUP_ROWS,
            use_dictionary=[one for one in FEW_VALUES if one in rows.column_names],
            store_schema=False,  # Spark is told the schema
            write_statistics=False,  # every row is wanted: there is nothing to skip by
        )
        os.replace(unfinished, file)
        return Stored(file, rows.schema)

    def _prune(self, epoch: int) -> None:
        oldest = epoch - self.engine.config.retain_epochs + 1
        for file in self.folder.glob("epoch-*.parquet"):
            if int(file.name.split("-")[1].split(".")[0]) < oldest:
                file.unlink(missing_ok=True)


def _remedy(epoch: int, following: int) -> str:
    if following == 0:
        return (
            f"epoch {epoch} arrived first, but the state is empty and starts with epoch 0. This version "
            f"keeps state in memory, so no other process and no other Sink can continue a query: start it "
            f"with a fresh checkpointLocation (delete the old one, or name another)"
        )
    if epoch < following:
        return (
            f"epoch {epoch} arrived, but epochs up to {following - 1} are committed and only the last can be "
            f"repeated. If the query was started anew with a fresh checkpointLocation, give it a new Sink as "
            f"well; if its checkpoint was set back by hand, start over with both new"
        )
    return (
        f"epoch {epoch} arrived, but epoch {following} is next: epochs {following} to {epoch - 1} never came "
        f"here. Every micro-batch of the query must be given to this sink; start over with a new Sink and a "
        f"fresh checkpointLocation"
    )


def _typed(rows: pa.Table, order_type: pa.DataType | None) -> pa.Table:
    if order_type is None:
        return rows
    index = rows.schema.get_field_index("_ts")
    return rows.set_column(index, "_ts", rows.column(index).cast(order_type))
