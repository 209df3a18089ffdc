"""`morphspark bench dynamic`: Streaming Ledger in four phases, whose character changes from batch to batch.

Every contestant runs the whole stream, batch by batch in turns, from the same initial state; then all again, on fresh
engines. Before the first phase there are batches for `auto` to learn from, of which the others run the first and the
last. In each phase `auto` is compared with the strategy or scheme that was best there, picked on odd repeats and
compared on even ones, by the time of the whole phase with all that `auto` tried in it: the median is over repeats.
Latency is the wall time of a batch, from its arrival to its results.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

from morphspark.bench import chart, lineup
from morphspark.bench.contest import EVEN, ODD, OneEngine, Sample, first_batch, median_speedup, shuffled
from morphspark.bench.progress_bar import ProgressBar
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.table import rate, text_table
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.ledger import Ledger
from morphspark.bench.workloads.phases import PHASES, Phases
from morphspark.progress import percentile

COST_US = 1.0
ABORT_PHASE = len(PHASES) - 1
SHOWN = (lineup.AUTO, lineup.SERIAL, *lineup.LITERATURE)  # over time

Stream = dict[str, list[Sample]]  # of each contestant, a sample for each measured batch


def run(scale: Scale) -> Report:
    report = Report("dynamic")
    names = [lineup.AUTO, *lineup.distinct()]
    events = scale.count(10_240)
    knobs = Ledger(events, scale.count(10_000), cost=cost_of("branchy", COST_US))
    phases = Phases(knobs, warm_up=1 + scale.learning_batches, batches=scale.pick(full=16, quick=8, tiny=2))
    repeats = scale.pick(full=12, quick=6, tiny=2)
    with ProgressBar(repeats * len(phases)) as bar:
        streams = [_stream(phases, names, repeat, bar) for repeat in range(repeats)]
    result = _Result(phases, knobs.events, streams)
    result.add_rows(report, names)
    report.tables = [*result.phase_table(names), "", *result.timeline()]
    report.charts += result.charts(SHOWN)
    for phase in range(len(PHASES)):
        best = result.best(phase, lineup.distinct())
        report.notes.append(f"phase {phase + 1}, {PHASES[phase].name}: the best fixed one is {best}")
        report.bar(f"auto_vs_best_scheme_{phase + 1}", result.speedup(phase, lineup.AUTO, best), 0.95)
    report.bar("vs_tstream_abort_phase", result.speedup(ABORT_PHASE, lineup.AUTO, lineup.TSTREAM), 2)
    return report


def _stream(phases: Phases, names: Sequence[str], repeat: int, bar: ProgressBar) -> Stream:
    """Everybody's samples in one repeat."""
    workload = phases.workload()
    samples: Stream = {name: [] for name in names}
    with ExitStack() as stack:
        engines = (OneEngine(entrant, workload) for entrant in lineup.entrants(names))
        contestants = [stack.enter_context(closing(engine)) for engine in engines]
        first_batch(workload, contestants)
        for number in range(1, len(phases)):
            bar.step(PHASES[phases.phase(number)].name)
            batch = workload.batch(number)
            for contestant in shuffled(contestants, repeat * len(phases) + number):
                if number >= phases.warm_up:
                    samples[contestant.name].append(contestant.process(batch))
                elif contestant.learns or number == phases.warm_up - 1:  # nobody begins cold
                    contestant.process(batch)
    return samples


class _Result:
    def __init__(self, phases: Phases, events: int, streams: Sequence[Stream]):
        self.phases = phases
        self.events = events
        self.streams = streams

    def seconds(self, phase: int, name: str) -> list[float]:
        """Of the whole phase, for each repeat."""
        return [sum(sample.execute_s for sample in self._in_phase(stream, phase, name)) for stream in self.streams]

    def best(self, phase: int, names: Sequence[str]) -> str:
        return min(names, key=lambda name: statistics.median(self.seconds(phase, name)[ODD]))

    def speedup(self, phase: int, name: str, over: str) -> float:
        return median_speedup(self.seconds(phase, name)[EVEN], self.seconds(phase, over)[EVEN])

    def add_rows(self, report: Report, names: Sequence[str]) -> None:
        for phase, about in enumerate(PHASES):
            for name in names:
                report.measured(
                    name, self.events * self.phases.batches, self.seconds(phase, name), phase=about.name,
                    latency_p50_ms=round(self._latency_ms(phase, name, 0.5), 3),
                    latency_p95_ms=round(self._latency_ms(phase, name, 0.95), 3),
                )  # fmt: skip
        report.rows += self.batches()

    def batches(self) -> list[dict[str, Any]]:
        """What `auto` did over time: medians over repeats, the decision of the last repeat."""
        rows = []
        for index, last in enumerate(self.streams[-1][lineup.AUTO]):
            number = self.phases.warm_up + index
            knobs = self.phases.knobs(number)
            ran = last.record["batches"][-1]
            rows.append(
                {
                    "name": lineup.AUTO,
                    "batch": index,
                    "phase": PHASES[self.phases.phase(number)].name,
                    "theta": round(knobs.theta, 3),
                    "transfers": round(knobs.transfers, 3),
                    "aborts": round(knobs.aborts, 3),
                    "events_per_s": round(self._rate(lineup.AUTO, index)),
                    "latency_ms": round(self._wall_ms(lineup.AUTO, index), 3),
                    "decision": last.record["strategy"],
                    **{key: ran[key] for key in ("why", "predicted_ms", "measured_ms")},
                }
            )
        return rows

    def phase_table(self, names: Sequence[str]) -> list[str]:
        rows = []
        for name in names:
            cells = [name]
            for phase in range(len(PHASES)):
                median = statistics.median(self.seconds(phase, name))
                cells.append(rate(self.events * self.phases.batches / median))
            cells.append(f"{self._latency_ms(ABORT_PHASE, name, 0.95):.1f}")
            rows.append(cells)
        header = ["  events/s, execute stage", *(phase.name for phase in PHASES), "p95 latency there, ms"]
        return [f"Streaming Ledger in four phases, C = {COST_US:g} µs", *text_table(header, rows)]

    def timeline(self) -> list[str]:
        rows = []
        for row in self.batches():
            knobs = [f"{row['theta']:.2f}", f"{row['transfers']:.0%}", f"{row['aborts']:.0%}"]
            speed = [rate(row["events_per_s"]), f"{row['latency_ms']:.1f}"]
            rows.append([f"{row['batch']:4} {row['phase']}", *knobs, *speed, row["decision"], row["why"]])
        header = ["auto, batch by batch", "θ", "transfers", "aborts", "events/s", "latency ms", "decision", "why"]
        return text_table(header, rows)

    def charts(self, names: Sequence[str]) -> list[chart.Chart]:
        x = list(range(len(self.streams[0][lineup.AUTO])))
        marks = {phase.name: index * self.phases.batches for index, phase in enumerate(PHASES)}
        rates = {name: [self._rate(name, index) for index in x] for name in names}
        latencies = {name: [self._wall_ms(name, index) for index in x] for name in names}
        decided = [row["decision"] for row in self.batches()]
        return [
            chart.Lines("throughput of each batch", x, rates, "batch", marks=marks),
            chart.Lines("latency of each batch", x, latencies, "batch", "ms", marks=marks),
            chart.Lines("what auto decided", x, {lineup.AUTO: decided}, "batch", "", marks=marks, y_scale="words"),
        ]

    def _in_phase(self, stream: Stream, phase: int, name: str) -> list[Sample]:
        return stream[name][phase * self.phases.batches : (phase + 1) * self.phases.batches]

    def _latency_ms(self, phase: int, name: str, share: float) -> float:
        samples = [sample for stream in self.streams for sample in self._in_phase(stream, phase, name)]
        return percentile([sample.wall_s * 1e3 for sample in samples], share)

    def _rate(self, name: str, index: int) -> float:
        return self.events / statistics.median(stream[name][index].execute_s for stream in self.streams)

    def _wall_ms(self, name: str, index: int) -> float:
        return statistics.median(stream[name][index].wall_s for stream in self.streams) * 1e3
