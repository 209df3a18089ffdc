"""The measuring core of the suites: strategies take turns on the same batches, from the same initial state.

    first batch       everybody runs it, unmeasured, and must give the same results and the same state
    trial             who is fixed runs a turn that only tells who is too slow to go on (where a suite wants that), and
                      two more before that is believed
    learning          `auto` alone runs a few batches; a stream is long, and it has learned when it counts
    turns             everybody runs the same batches, one contestant after the other, in another order each time: who
                      always came behind the same one would find its traces in the caches and in the cores' clocks

What is measured is the execute stage (planning, scheduling and execution: what strategies differ in) and the wall time
of `engine.process`.
"""

from __future__ import annotations

import functools
import itertools
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from morphspark.bench.lineup import SERIAL, Entrant
from morphspark.bench.progress_bar import ProgressBar
from morphspark.bench.scale import Scale, Turns
from morphspark.bench.workloads.workload import Workload

TURN_BATCHES_MAX = 16
TRIALS = 3  # one that was disturbed must not drop the best
DISTURBED = 1.5  # medians that a turn takes if the machine is busy with something else


@dataclass(frozen=True)
class Sample:
    """One turn: seconds of all its batches, and what the engine noted about the last."""

    execute_s: float
    wall_s: float
    record: dict[str, Any]


class Contestant(Protocol):
    name: str
    learns: bool
    correct: bool

    def process(self, batch: pa.Table) -> Sample: ...

    def close(self) -> None: ...


class OneEngine:
    def __init__(self, entrant: Entrant, workload: Workload):
        self.name, self.learns, self.correct = entrant.name, entrant.learns, entrant.correct
        self.engine = entrant.open(workload)
        self.result: pa.Table | None = None  # of the last batch

    def process(self, batch: pa.Table) -> Sample:
        started = time.perf_counter()
        self.result = self.engine.process(batch)
        wall_s = time.perf_counter() - started
        record = self.engine.metrics[-1]
        return Sample(record["core_execute_ms"] / 1e3, wall_s, record)

    def close(self) -> None:
        self.engine.close()


class TwoEngines:
    """Two serial engines in two threads that share nothing: what two cores can do at all. Seconds are per batch."""

    learns, correct = False, False  # it runs every batch twice

    def __init__(self, name: str, workload: Workload):
        self.name = name
        self._both = [OneEngine(Entrant(name, SERIAL, 1), workload) for _ in range(2)]
        self._threads = ThreadPoolExecutor(2)

    def process(self, batch: pa.Table) -> Sample:
        begin = threading.Barrier(2)

        def run(one: OneEngine) -> Sample:
            begin.wait()
            return one.process(batch)

        slower = max(self._threads.map(run, self._both), key=lambda sample: sample.execute_s)
        return Sample(slower.execute_s / 2, slower.wall_s / 2, slower.record)

    def close(self) -> None:
        self._threads.shutdown()
        for one in self._both:
            one.close()


@dataclass
class Outcome:
    """Samples of each contestant, turn by turn. Turns count from 1, so the first is odd."""

    events: int  # of a turn
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)  # too slow to go on

    def seconds(self, name: str) -> list[float]:
        return [sample.execute_s for sample in self.samples[name]]

    def rate(self, name: str) -> float:
        """Events a second."""
        return self.events / statistics.median(self.seconds(name))

    def wall_ms(self, name: str) -> float:
        return statistics.median(sample.wall_s for sample in self.samples[name]) * 1e3

    def speedup(self, name: str, over: str, turns: slice = slice(None)) -> float:
        """How much faster one is than another: the median over turns, as what disturbs a turn disturbs both."""
        return median_speedup(self.seconds(name)[turns], self.seconds(over)[turns])

    def speedup_of_totals(self, name: str, over: str, turns: slice = slice(None)) -> float:
        """The same by the time of all turns together, in which a few slow ones count, as they don't in a median.

        Left out are turns that took both of them long: something disturbed the machine. Who alone takes long counts.
        """
        own, others = self.seconds(name)[turns], self.seconds(over)[turns]
        own_limit, others_limit = (DISTURBED * statistics.median(seconds) for seconds in (own, others))
        pairs = zip(own, others, strict=True)
        counted = [(one, other) for one, other in pairs if one <= own_limit or other <= others_limit]
        return sum(other for _, other in counted) / sum(one for one, _ in counted)

    def best(self, names: Iterable[str]) -> str:
        """The fastest on odd turns. Compare it on even ones, or luck is measured."""
        there = [name for name in names if name in self.samples]
        return min(there, key=lambda name: statistics.median(self.seconds(name)[ODD]))


ODD, EVEN = slice(0, None, 2), slice(1, None, 2)


def median_speedup(own: Sequence[float], others: Sequence[float]) -> float:
    """Of seconds against another's in the same turns."""
    return statistics.median(other / one for one, other in zip(own, others, strict=True))


def contest(
    workload: Workload,
    entrants: Sequence[Entrant],
    scale: Scale,
    turns: Turns,
    bar: ProgressBar,
    others: Sequence[Callable[[Workload], Contestant]] = (),
    drop_beyond: float | None = None,
) -> Outcome:
    """Measure all entrants; with `drop_beyond` only those that take at most so many times as long as the fastest."""
    with ExitStack() as stack:
        makers = [*(functools.partial(OneEngine, entrant) for entrant in entrants), *others]
        contestants: list[Contestant] = [stack.enter_context(closing(make(workload))) for make in makers]
        first = first_batch(workload, contestants)
        batches = max(1, min(TURN_BATCHES_MAX, round(turns.turn_s / min(first.values()))))
        numbers = itertools.count(1)
        outcome = Outcome(workload.events * batches)
        if drop_beyond is not None:
            trials = [[workload.batch(next(numbers)) for _ in range(batches)] for _ in range(TRIALS)]
            outcome.dropped = _too_slow(contestants, first, trials, drop_beyond)
            contestants = [one for one in contestants if one.name not in outcome.dropped]
        for batch in [workload.batch(next(numbers)) for _ in range(scale.learning_batches)]:
            for learner in (one for one in contestants if one.learns):
                learner.process(batch)
        outcome.samples = {contestant.name: [] for contestant in contestants}
        _take_turns(workload, contestants, numbers, batches, turns, bar, outcome)
    return outcome


def first_batch(workload: Workload, contestants: Sequence[Contestant]) -> dict[str, float]:
    """Seconds of each; an error if two of them disagree."""
    batch = workload.batch(0)
    seconds = {contestant.name: contestant.process(batch).execute_s for contestant in contestants}
    engines = [one for one in contestants if one.correct and isinstance(one, OneEngine)]
    for other in engines[1:]:
        check_same(engines[0], other)
    return seconds


def check_same(one: OneEngine, other: OneEngine) -> None:
    """Results and state, or the comparison means nothing."""
    assert one.result is not None and one.result.equals(other.result), f"{other.name} disagrees with {one.name}"
    for spec in one.engine.app.program.tables:
        tables = [engine.table(spec.name).to_arrow() for engine in (one.engine, other.engine)]
        if not tables[0].equals(tables[1]):  # rows have no promised order
            order = [(name, "ascending") for name, _ in spec.key]
            same = tables[0].sort_by(order).equals(tables[1].sort_by(order))
            assert same, f"{other.name} disagrees with {one.name} about table {spec.name!r}"


def _too_slow(
    contestants: Sequence[Contestant], first: Mapping[str, float], trials: Sequence[Sequence[pa.Table]], times: float
) -> list[str]:
    """Who needs so many times as long as the fastest, even at best; not who learns, which may take its time."""
    seconds = {one.name: first[one.name] for one in contestants if not one.learns}
    slow = list(seconds)
    for trial in trials:
        for one in contestants:
            if one.name in slow:
                seconds[one.name] = min(seconds[one.name], *(one.process(batch).execute_s for batch in trial))
        limit = times * min(seconds.values())
        slow = [name for name, own in seconds.items() if own > limit]
    return slow


def shuffled(contestants: Sequence[Contestant], turn: int) -> list[Contestant]:
    """In an order that depends on the turn alone."""
    return random.Random(turn).sample(contestants, len(contestants))


def _take_turns(
    workload: Workload,
    contestants: Sequence[Contestant],
    numbers: Iterator[int],
    batches: int,
    turns: Turns,
    bar: ProgressBar,
    outcome: Outcome,
) -> None:
    started = time.perf_counter()
    turn = 0
    while turn % 2 or (share := turns.done(turn, time.perf_counter() - started)) < 1:  # as many odd as even turns
        bar.within(share)
        own = [workload.batch(next(numbers)) for _ in range(batches)]
        for contestant in shuffled(contestants, turn):
            samples = [contestant.process(batch) for batch in own]
            execute_s = sum(sample.execute_s for sample in samples)
            wall_s = sum(sample.wall_s for sample in samples)
            outcome.samples[contestant.name].append(Sample(execute_s, wall_s, samples[-1].record))
        turn += 1
