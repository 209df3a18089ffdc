"""`morphspark bench engine`: what the engine costs, and what it saves.

Streaming Ledger with string keys, 100 k accounts and assets, θ 0.6, batches of 100 k events, one thread; beside it in
the same run a Python dict loop and a hand-written C++ loop over the same Arrow buffers and the same key index.
"""

from __future__ import annotations

import statistics

import pyarrow as pa

import morphspark as ms
from morphspark import _core
from morphspark.apps import streaming_ledger
from morphspark.bench.ledger_peers import COLUMNS, DictLoop
from morphspark.bench.report import Report, take_turns
from morphspark.bench.scale import Scale
from morphspark.machine_code import kind_code
from morphspark.types import INT64, NULL, STRING

EVENTS = 100_000
ACCOUNTS = 100_000
THETA = 0.6
INITIAL = 1_000_000_000  # of every account and asset, as in csrc/bench/ledger_loop.h: no transfer aborts by chance


def run(scale: Scale) -> Report:
    repeats = 15 if scale.quick else 60
    batches = [
        streaming_ledger.generate(EVENTS, ACCOUNTS, THETA, seed=7, first=number * EVENTS).combine_chunks()
        for number in range(4 if scale.quick else 16)
    ]

    def batch(turn: int) -> pa.Table:
        return batches[turn % len(batches)]

    engine, cpp, dicts = _open(), _CppLoop(), DictLoop(INITIAL)
    _check_equal(batch(0))
    seconds = take_turns(
        {
            "engine": lambda turn: engine.process(batch(turn)),
            "cpp": lambda turn: cpp.process(batch(turn)),
            "dict": lambda turn: dicts.process(batch(turn)),
        },
        repeats,
    )
    report = Report("engine")
    engine_rate = report.measured("engine", EVENTS, seconds["engine"], threads=1)
    cpp_rate = report.measured("hand-written C++ loop", EVENTS, seconds["cpp"])
    dict_rate = report.measured("Python dict loop", EVENTS, seconds["dict"])
    report.bar("vs_dict", engine_rate / dict_rate, 12)
    report.bar("vs_cpp", engine_rate / cpp_rate, 0.35)
    report.notes += _gap(engine, cpp, repeats)
    return report


def _open() -> ms.Engine:
    engine = streaming_ledger.build().open(config=ms.Config(strategy="serial", threads=1))
    for name, rows in streaming_ledger.initial_state(ACCOUNTS, INITIAL).items():
        engine.load(name, rows)
    return engine


class _CppLoop:
    KINDS = [(kind_code(INT64 if name in ("amount", "quantity") else STRING), kind_code(NULL)) for name in COLUMNS]

    def __init__(self) -> None:
        self.loop = _core.LedgerLoop()
        self.stages: list[dict[str, float]] = []

    def process(self, events: pa.Table) -> tuple[pa.Array, pa.Array]:
        arrays = [events.column(name).chunk(0) for name in COLUMNS]
        status, balance, seconds = self.loop.run(arrays, self.KINDS)
        self.stages.append(seconds)
        return status, balance


def _check_equal(events: pa.Table) -> None:
    """All three must have done the same, or the comparison means nothing."""
    result = _open().process(events)
    status, balance = _CppLoop().process(events)
    assert result.column("_status").chunk(0).equals(status), "the C++ loop disagrees with the engine"
    assert result.column("balance").chunk(0).equals(balance), "the C++ loop disagrees with the engine"
    assert DictLoop(INITIAL).process(events).equals(status), "the dict loop disagrees with the engine"


def _gap(engine: ms.Engine, cpp: _CppLoop, repeats: int) -> list[str]:
    """What the engine does with the time that the C++ loop does not take."""
    metrics = engine.metrics.to_pandas().tail(repeats)

    def engine_ms(*stages: str) -> float:
        return sum(float(metrics[stage].median()) for stage in stages)

    def cpp_ms(stage: str) -> float:
        return statistics.median(one[stage] * 1e3 for one in cpp.stages[-repeats:])

    core = ("core_order_ms", "core_classify_ms", "core_resolve_ms", "core_execute_ms", "core_output_ms")
    lines: list[tuple[str, float, float]] = [
        ("schema check, widening (admit)", engine_ms("admit_ms"), 0.0),
        ("is it in order? late events?", engine_ms("core_order_ms"), 0.0),
        ("classify + keys to slots", engine_ms("core_classify_ms", "core_resolve_ms"), cpp_ms("resolve")),
        ("execute: checks, versions, undo", engine_ms("core_execute_ms"), cpp_ms("execute")),
        ("status, reason, returned, _ts", engine_ms("core_output_ms"), cpp_ms("output")),
        ("event columns, Python objects", engine_ms("total_ms") - engine_ms("admit_ms", *core), 0.0),
    ]
    return ["where a batch's time goes (ms)          engine    C++"] + [
        f"  {name:<36} {ours:>7.2f} {theirs:>7.2f}" for name, ours, theirs in lines
    ]
