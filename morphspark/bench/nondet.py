"""`morphspark bench nondet`: keys that are computed from what is read, over their share.

Grep & Sum, C = 10 µs; a share of the transactions writes to a row that the sum of two others chooses.

with_among    throughput with 10 % such keys, of four candidates that the event names, as a share of that with none
without       the same without candidates: any row of the table may be meant
"""

from __future__ import annotations

import itertools
import statistics

from morphspark.bench import chart, lineup
from morphspark.bench.contest import OneEngine, first_batch, median_speedup
from morphspark.bench.report import Report, take_turns
from morphspark.bench.scale import Scale
from morphspark.bench.table import rate, text_table
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.grep_nondet import CANDIDATES, GrepNondet
from morphspark.bench.workloads.workload import Workload

COST_US = 10.0
SHARES = (0.0, 0.1, 0.3, 1.0)
SHARE = SHARES[1]
STRATEGIES = (lineup.AUTO, "ns-explore/t-schedule/e-abort", "ns-explore/c-schedule/e-abort", "lock", lineup.SERIAL)
WAYS = {"among": True, "any row": False}


class Stream:
    """A strategy on a workload, batch by batch: those to learn from, then turns. Notes what turns took."""

    def __init__(self, engine: OneEngine, workload: Workload, learning: int):
        self.engine, self.workload = engine, workload
        self.seconds: list[float] = []
        self._first_turn = 1 + learning
        for number in range(1, self._first_turn if engine.learns else 1):
            engine.process(workload.batch(number))

    def turn(self, number: int) -> None:
        batch = self.workload.batch(self._first_turn + number)
        self.seconds.append(self.engine.process(batch).execute_s)


def run(scale: Scale) -> Report:
    report = Report("nondet")
    names, shares = scale.first(STRATEGIES, quick=2), scale.first(SHARES, quick=2)
    cost = cost_of("branchy", COST_US)
    streams: dict[tuple[str, str, float], Stream] = {}
    for (way, among), share in itertools.product(WAYS.items(), shares):
        knobs = GrepNondet(scale.count(10_240), scale.count(10_000), share, among, cost=cost)
        workload = knobs.workload()
        engines = [OneEngine(entrant, workload) for entrant in lineup.entrants(names)]
        first_batch(workload, engines)
        for engine in engines:
            streams[engine.name, way, share] = Stream(engine, workload, scale.learning_batches)
    take_turns({_label(*key): stream.turn for key, stream in streams.items()}, scale.pick(30, 8, 2), warm_up=1)
    rates: dict[tuple[str, str, float], float] = {}
    for (name, way, share), stream in streams.items():
        spent, events = stream.seconds[1:], stream.workload.events
        rates[name, way, share] = events / statistics.median(spent)
        report.measured(_label(name, way, share), events, spent, strategy=name, way=way, share=share)
        stream.engine.close()
    report.tables = _table(rates, names, shares)
    report.charts = [_chart(way, rates, names, shares) for way in WAYS]
    for bar, way, wanted in (("with_among", "among", 0.85), ("without", "any row", 0.65)):
        none, some = (streams[names[0], way, share].seconds[1:] for share in (0.0, SHARE))
        report.bar(bar, median_speedup(some, none), wanted)
    report.notes.append(
        f"C = {COST_US:g} µs per write, θ 0.2, 10,000 keys, {CANDIDATES} candidates; the bars are those of {names[0]}"
    )
    return report


def _label(name: str, way: str, share: float) -> str:
    return f"{name}, {way}, {share:.0%}"


def _table(rates: dict[tuple[str, str, float], float], names: list[str], shares: list[float]) -> list[str]:
    columns = [(way, share) for way in WAYS for share in shares]
    rows = [[name, *(rate(rates[name, way, share]) for way, share in columns)] for name in names]
    header = ["  events/s, execute stage", *(f"{way} {share:.0%}" for way, share in columns)]
    return ["Grep & Sum, over the share of keys that are computed from what is read", *text_table(header, rows)]


def _chart(way: str, rates: dict[tuple[str, str, float], float], names: list[str], shares: list[float]) -> chart.Lines:
    lines = {name: [rates[name, way, share] for share in shares] for name in names}
    return chart.Lines(f"Grep & Sum, {way}", [f"{share:.0%}" for share in shares], lines, "share of computed keys")
