"""`morphspark bench window`: sums over windows of 100 random keys, over their size and how often they are read.

size_ratio       throughput with windows of 100,000 events, as a share of that with 1,000
trigger_ratio    throughput with a read in every 100 events, as a share of that with one in 100,000
vs_recompute     reads alone, with 1,000 keys and windows of 100,000 events: sums that move on with the window
                 against the same sums computed anew, version by version
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable

import morphspark as ms
from morphspark.bench.report import Report, take_turns
from morphspark.bench.scale import Scale
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.grep_window import KEYS_READ, GrepWindow
from morphspark.engine import Engine
from morphspark.native import NativeCore

COST_US = 1.0
SIZES = (1_000, 10_000, 100_000)
PERIODS = (100, 1_000, 10_000, 100_000)
INTERVAL = 10_240
KEYS, FEW_KEYS = 10_000, 1_000
CONFIG = ms.Config(strategy="serial", threads=1)


class Stream:
    """An engine and its events, one batch after the other. Windows are full before anything is measured."""

    def __init__(self, workload: GrepWindow, interval: int, engine: Engine):
        self.workload, self.interval, self.engine = workload, interval, engine
        self._now = 0
        self.process(workload.size, reads=False)

    def process(self, count: int, reads: bool | None = None) -> float:
        """Seconds of executing so many events."""
        table = self.workload.events(self._now, count, reads)
        self._now += count
        self.engine.process(table)
        return self.engine.metrics[-1]["core_execute_ms"] / 1e3

    def turn(self) -> float:
        return self.process(self.interval)

    def turn_of_reads(self) -> float:
        """Reads as often as ever, but all at once, so that nothing else is measured."""
        self.process(self.interval, reads=False)
        return self.process(max(1, self.interval // self.workload.period), reads=True)


def run(scale: Scale) -> Report:
    report = Report("window")
    interval, cost = scale.count(INTERVAL), cost_of("branchy", COST_US)
    turns = scale.pick(60, 16, 2)

    def stream(keys: int, size: int, period: int, recompute: bool = False) -> Stream:
        workload = GrepWindow(scale.count(keys), scale.count(size), period, cost)
        core = functools.partial(NativeCore, recompute=recompute)
        return Stream(workload, interval, Engine(workload.app(), None, CONFIG, make_core=core))

    sizes = {f"size {size:,}": stream(KEYS, size, 100).turn for size in scale.spread(SIZES, quick=2)}
    rates = measure(report, sizes, interval, turns)
    size_ratio = rates[f"size {SIZES[-1]:,}"] / rates[f"size {SIZES[0]:,}"]

    periods = {f"period {period:,}": stream(KEYS, 10_000, period).turn for period in scale.spread(PERIODS, quick=2)}
    rates = measure(report, periods, interval, turns)
    trigger_ratio = rates[f"period {PERIODS[0]:,}"] / rates[f"period {PERIODS[-1]:,}"]

    ways = {name: stream(FEW_KEYS, 100_000, 100, name == "recompute").turn_of_reads for name in ("kept", "recompute")}
    rates = measure(report, ways, max(1, interval // 100), turns)
    report.bar("size_ratio", size_ratio, 0.90)
    report.bar("trigger_ratio", trigger_ratio, 0.75)
    report.bar("vs_recompute", rates["kept"] / rates["recompute"], 3.0)
    report.notes.append(
        f"C = {COST_US:g} µs per update, sums over {KEYS_READ} keys, serial; the last two are reads alone"
    )
    return report


def measure(report: Report, contestants: dict[str, Callable[[], float]], events: int, turns: int) -> dict[str, float]:
    """Rates of contestants that take turns and measure themselves."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}

    def turn(name: str, number: int) -> None:
        seconds[name].append(contestants[name]())

    warm_up = 2
    take_turns({name: functools.partial(turn, name) for name in contestants}, turns, warm_up)
    for name, spent in seconds.items():
        report.measured(name, events, spent[warm_up:])
    return {name: events / statistics.median(spent[warm_up:]) for name, spent in seconds.items()}
