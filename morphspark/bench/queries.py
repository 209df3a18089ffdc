"""Streaming queries that take turns in one Spark session, a file of events per micro-batch.

Events come from Parquet files, so that no generator is measured: a file is moved into the folder of one query, and
the next into another's when that micro-batch is done. A micro-batch's time is the trigger's, as Spark's progress
reports it, with Spark's own logs in it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

import morphspark as ms
from morphspark.apps import streaming_ledger
from morphspark.bench.progress_bar import ProgressBar
from morphspark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_S = 0.02

Body = Callable[["DataFrame", int], Any]


@contextlib.contextmanager
def bench_session(name: str) -> Iterator[SparkSession]:
    """A session whose queries look for files often."""
    spark = local_session(f"morphspark bench {name}", {"spark.sql.streaming.pollingDelay": f"{POLL_S * 1e3:.0f}ms"})
    try:
        yield spark
    finally:
        spark.stop()


def take_turns(
    spark: SparkSession, bodies: Mapping[str, Callable[[Path], Body]], events: int, warm_up: int, batches: int
) -> dict[str, list[float]]:
    """Seconds of each micro-batch of each query. The first ones meet new keys and code that Java has not compiled."""
    seconds: dict[str, list[float]] = {name: [] for name in bodies}
    with tempfile.TemporaryDirectory(prefix="morphspark-bench-") as folder, contextlib.ExitStack() as stack:
        files = _write_events(Path(folder) / "events", events, warm_up + batches)
        queries = {
            name: stack.enter_context(_Query(spark, Path(folder) / name.replace(" ", "-"), make, files[0]))
            for name, make in bodies.items()
        }
        bar = stack.enter_context(ProgressBar(warm_up + batches))
        for turn in range(warm_up + batches):
            bar.step(f"micro-batch {turn + 1} of {events // 1000:,} k events each")
            for name, query in queries.items():
                spent = query.process(files[turn])
                if turn >= warm_up:
                    seconds[name].append(spent)
    return seconds


def _write_events(folder: Path, events: int, count: int) -> list[Path]:
    folder.mkdir()
    files = [folder / f"{number:04}.parquet" for number in range(count)]
    for number, file in enumerate(files):
        table = streaming_ledger.generate(events, seed=7, first=number * events)
        pq.write_table(table, file, compression="lz4", row_group_size=events // 2)  # a group for each of two cores
    return files


class _Query:
    """A query that gets one file at a time."""

    def __init__(self, spark: SparkSession, folder: Path, make: Callable[[Path], Body], example: Path):
        self._inbox = folder / "inbox"
        self._inbox.mkdir(parents=True)
        schema = spark.read.parquet(str(example)).schema
        stream = spark.readStream.schema(schema).parquet(str(self._inbox))
        self._body = make(folder)
        writer = stream.writeStream.foreachBatch(self._body)
        self._query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        self._files = 0

    def process(self, file: Path) -> float:
        """Run a micro-batch with the events of a file; the seconds it took."""
        unseen = self._inbox / f".{self._files:06}.parquet"
        os.link(file, unseen)  # Spark must not see half a file, so it comes in one step under a new name
        unseen.rename(self._inbox / unseen.name[1:])
        batch = self._files
        self._files += 1
        while True:
            if self._query.exception() is not None:
                raise RuntimeError(f"the query failed: {self._query.exception()}")
            report = self._query.lastProgress
            if report is not None and report["batchId"] >= batch and report["numInputRows"]:
                return float(report["durationMs"]["triggerExecution"]) / 1e3
            time.sleep(POLL_S)

    def __enter__(self) -> _Query:
        return self

    def __exit__(self, *error: object) -> None:
        self._query.stop()
        if isinstance(self._body, ms.Sink):
            self._body.close()


def ledger_sink(folder: Path, config: ms.Config) -> Body:
    """Streaming Ledger; its output DataFrame is read in full by a writer to nowhere (`noop`)."""

    def write(df: DataFrame, epoch: int) -> None:
        df.write.format("noop").mode("append").save()

    return ms.Sink(streaming_ledger.build(), folder / "state", write, config=config)
