"""`morphspark bench sink`: what a streaming query pays for transactions.

Streaming Ledger through Spark, four queries that take turns in one session:

    morphspark   ms.Sink: durable, with fsync
    in memory    ms.Sink with log="none", which keeps nothing
    dict loop    foreachBatch: toArrow(), a Python dict loop, statuses back to Arrow; keeps and writes nothing
    toArrow      foreachBatch: toArrow() and nothing else: what reaching Python costs at all
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import morphspark as ms
from morphspark.bench.ledger_peers import DictLoop
from morphspark.bench.queries import Body, bench_session, ledger_sink, take_turns
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(scale: Scale) -> Report:
    quick = scale.quick
    report = Report("sink")
    with bench_session("sink") as spark:
        _measure(spark, report, events=100_000, warm_up=5 if quick else 16, batches=5 if quick else 48)
        _measure(spark, report, events=1_000_000, warm_up=1 if quick else 2, batches=1 if quick else 9)
    return report


def _measure(spark: SparkSession, report: Report, events: int, warm_up: int, batches: int) -> None:
    bodies = {
        "morphspark": partial(ledger_sink, config=ms.Config()),
        "in memory": partial(ledger_sink, config=ms.Config(log="none")),
        "dict loop": _dict_loop,
        "toArrow": _to_arrow,
    }
    seconds = take_turns(spark, bodies, events, warm_up, batches)
    size = f"{events // 1000:,} k"
    rates = {name: report.measured(f"{name}, {size} events", events, spent) for name, spent in seconds.items()}
    bar = 0.9 if events == 100_000 else None  # the dict loop keeps nothing
    suffix = "" if events == 100_000 else "_1m"
    report.bar(f"vs_dict_sink{suffix}", rates["morphspark"] / rates["dict loop"], bar)
    report.bar(f"vs_toarrow{suffix}", rates["morphspark"] / rates["toArrow"], None)
    report.bar(f"in_memory_vs_dict_sink{suffix}", rates["in memory"] / rates["dict loop"], 1.0 if bar else None)


def _dict_loop(folder: Path) -> Body:
    loop = DictLoop(initial=0)
    return lambda df, epoch: loop.process(df.toArrow())


def _to_arrow(folder: Path) -> Body:
    return lambda df, epoch: df.toArrow()
