"""`morphspark bench window`: Grep & Sum with windows, over their size, over how often they are read, and incremental
against computed anew. Every figure is the throughput of the whole query: updates (C = 1 µs each) and reads.

size_ratio       throughput with windows of 100,000 events, as a share of that with 1,000; a read over 100 random keys
                 in every 100 events
trigger_ratio    throughput with a read in every 100 events, as a share of that with one in 100,000
vs_recompute     1,000 keys, windows of 100,000 events: throughput with incremental aggregates, as a multiple of that
                 of the same engine with aggregates computed anew for every read

Reads are events that bring their keys, or firings of a trigger (`of_trigger`) over keys that were drawn when the app
was made. `vs_recompute` is measured with a window over all 1,000 keys. Two more are reported that have no bar, because
no aggregate can make a large difference there: a window over 100 random keys, where updates alone are most of the work;
and a trigger for each of the 1,000, where ten results per event are.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import morphspark as ms
from morphspark.bench.report import Report, take_turns
from morphspark.bench.scale import Scale
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.grep_window import GrepWindow
from morphspark.engine import Engine
from morphspark.native import NativeCore

COST_US = 1.0
SIZES = (1_000, 10_000, 100_000)
PERIODS = (100_000, 10_000, 1_000, 100)
EPOCH = 10_240
TURN = 102_400  # at least one read of the longest period
KEYS, FEW_KEYS = 10_000, 1_000
CONFIG = ms.Config()


class Stream:
    """An engine and its events, one epoch after the other. Windows are full before anything is measured."""

    def __init__(self, workload: GrepWindow, epoch: int, turn: int, engine: Engine):
        self.workload, self.epoch, self.events, self.engine = workload, epoch, turn, engine
        self._now = 0
        self.process(workload.size)

    def process(self, count: int) -> float:
        """Seconds that the engine took for so many events."""
        seconds = 0.0
        for start in range(self._now, self._now + count, self.epoch):
            table = self.workload.events(start, min(self.epoch, self._now + count - start))
            started = time.perf_counter()
            self.engine.process(table)
            seconds += time.perf_counter() - started
        self._now += count
        return seconds

    def turn(self) -> float:
        return self.process(self.events)


def run(scale: Scale) -> Report:
    report = Report("window")
    cost, turns = cost_of("branchy", COST_US), scale.pick(12, 3, 1)

    def stream(keys: int, size: int, period: int, reader: str, keys_read: int = 100, recompute: bool = False) -> Stream:
        workload = GrepWindow(scale.count(keys), scale.count(size), period, cost, reader, keys_read)
        core = functools.partial(NativeCore, recompute=recompute)
        return Stream(
            workload, scale.count(EPOCH), scale.count(TURN), Engine(workload.app(), None, CONFIG, make_core=core)
        )

    for reader, suffix in (("event", ""), ("trigger", "_of_trigger")):
        sizes = {size: stream(KEYS, size, 100, reader) for size in scale.spread(SIZES, quick=2)}
        rates = measure(report, {f"{reader}: size {size:,}": one.turn for size, one in sizes.items()}, scale, turns)
        report.bar(f"size_ratio{suffix}", rates[-1] / rates[0], 0.90)

        periods = {period: stream(KEYS, 10_000, period, reader) for period in scale.spread(PERIODS, quick=2)}
        named = {f"{reader}: period {period:,}": one.turn for period, one in periods.items()}
        rates = measure(report, named, scale, turns)
        report.bar(f"trigger_ratio{suffix}", rates[-1] / rates[0], 0.75)

    for reader, keys_read, suffix, bar in (
        ("event", FEW_KEYS, "", 3.0),
        ("each", FEW_KEYS, "_of_trigger", None),
        ("event", 100, "_100_keys", None),
    ):
        ways = {
            f"{reader}, {keys_read:,} keys: {name}": stream(FEW_KEYS, 100_000, 100, reader, keys_read, recompute).turn
            for name, recompute in (("recompute", True), ("incremental", False))
        }
        rates = measure(report, ways, scale, turns)
        report.bar(f"vs_recompute{suffix}", rates[-1] / rates[0], bar)
    report.notes.append(f"C = {COST_US:g} µs per update; strategy {CONFIG.strategy}, epochs of {EPOCH:,} events")
    return report


def measure(report: Report, contestants: dict[str, Callable[[], float]], scale: Scale, turns: int) -> list[float]:
    """Rates of contestants that take turns and measure themselves."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}

    def turn(name: str, number: int) -> None:
        seconds[name].append(contestants[name]())

    warm_up, events = 1, scale.count(TURN)
    take_turns({name: functools.partial(turn, name) for name in contestants}, turns, warm_up)
    return [report.measured(name, events, spent[warm_up:]) for name, spent in seconds.items()]
