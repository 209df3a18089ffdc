"""The grid of `morphspark bench regret`: 60 workloads that differ in every knob."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from morphspark.bench.scale import Scale
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.grep_lists import GrepLists
from morphspark.bench.workloads.grep_sum import GrepSum
from morphspark.bench.workloads.ledger import Ledger
from morphspark.bench.workloads.toll_processing import TollProcessing
from morphspark.bench.workloads.workload import Workload

SHUFFLE = 853  # a seed that brings the rest of what there is among the first twelve
KEYS = 10_000  # accounts, assets, records: many engines are opened


class Entry(NamedTuple):
    label: str
    make: Callable[[], Workload]


def grid(scale: Scale) -> list[Entry]:
    """The ends of all ranges, then the others in an order that mixes all knobs: the first few are a sample of all."""
    others = [*_ledgers(scale), *_intervals(scale), *_hot_assets(scale), *_sums(scale), *_others(scale)]
    return [*_ends(scale), *(others[index] for index in np.random.default_rng(SHUFFLE).permutation(len(others)))]


def _ledgers(scale: Scale) -> Iterator[Entry]:
    """18: skew × aborts × cost. Dear writes come in shorter batches."""
    for theta in (0.2, 0.6, 0.99):
        for kind, cost_us, events in (("smooth", 0.0, 10_240), ("smooth", 1.0, 10_240), ("branchy", 10.0, 1_280)):
            for aborts in (0.01, 0.4):
                yield _ledger(scale, theta, aborts, kind, cost_us, events)


def _intervals(scale: Scale) -> Iterator[Entry]:
    """8: the punctuation interval × cost. Dear writes come in very short batches, too."""
    for events in (640, 5_120, 20_480):
        for kind, cost_us in (("branchy", 1.0), ("smooth", 0.1)):
            yield _ledger(scale, 0.2, 0.01, kind, cost_us, events)
    for kind, cost_us in (("branchy", 10.0), ("smooth", 1.0)):
        yield _ledger(scale, 0.2, 0.01, kind, cost_us, 100)


def _hot_assets(scale: Scale) -> Iterator[Entry]:
    """4: accounts are scattered, an asset is not; share of its events, of transfers."""
    for hot, transfers in ((1.0, 0.0), (0.5, 0.5)):
        for kind, cost_us in (("branchy", 1.0), ("smooth", 1.0)):
            yield _ledger(scale, 0.0, 0.01, kind, cost_us, 5_120, hot=hot, transfers=transfers)


def _sums(scale: Scale) -> Iterator[Entry]:
    """18: operations and rows of a transaction × cost × cycles."""
    for length, reads in ((1, 2), (4, 1), (2, 6)):
        for kind, cost_us in (("branchy", 0.0), ("smooth", 3.0), ("branchy", 0.3)):
            for cyclic in (True, False):
                yield _sum(scale, length, reads, kind, cost_us, cyclic)


def _others(scale: Scale) -> Iterator[Entry]:
    """6: lists, hot segments."""
    for kind, cost_us in (("smooth", 0.0), ("branchy", 1.0), ("smooth", 1.0)):
        yield _lists(scale, kind, cost_us)
        yield _toll(scale, kind, cost_us)


def _ends(scale: Scale) -> Iterator[Entry]:
    """6: the ends of the ranges in the literature. Writes of 100 µs come in short batches."""
    yield _ledger(scale, 0.2, 0.9, "smooth", 0.0, 10_240, transfers=1.0)
    yield _ledger(scale, 0.2, 0.9, "branchy", 1.0, 5_120, transfers=1.0)
    yield _ledger(scale, 1.0, 0.0, "branchy", 1.0, 5_120)
    yield _ledger(scale, 0.2, 0.01, "smooth", 0.1, 81_920)
    yield _ledger(scale, 0.2, 0.01, "branchy", 100.0, 320)
    yield _sum(scale, 10, 10, "branchy", 0.3, cyclic=True)


def _ledger(scale: Scale, theta: float, aborts: float, kind: str, cost_us: float, events: int, **more: float) -> Entry:
    def make() -> Workload:
        return Ledger(
            scale.count(events), scale.count(KEYS), theta, aborts, cost=cost_of(kind, cost_us), **more
        ).workload()  # fmt: skip

    label = " ".join(["SL", f"θ {theta}", f"a {aborts}", *(f"{name} {value}" for name, value in more.items())])
    return Entry(f"{label} {_cost(kind, cost_us)} T {events}", make)


def _sum(scale: Scale, length: int, reads: int, kind: str, cost_us: float, cyclic: bool) -> Entry:
    def make() -> Workload:
        cost = cost_of(kind, cost_us)
        return GrepSum(
            scale.count(5_120), scale.count(KEYS), length=length, reads=reads, cyclic=cyclic, cost=cost
        ).workload()  # fmt: skip

    cycles = "cyclic" if cyclic else "acyclic"
    return Entry(f"GS l {length} r {reads} {_cost(kind, cost_us)} {cycles}", make)


def _lists(scale: Scale, kind: str, cost_us: float) -> Entry:
    def make() -> Workload:
        return GrepLists(scale.count(5_120), scale.count(KEYS), cost=cost_of(kind, cost_us)).workload()

    return Entry(f"GS lists l 10 {_cost(kind, cost_us)}", make)


def _toll(scale: Scale, kind: str, cost_us: float) -> Entry:
    def make() -> Workload:
        return TollProcessing(scale.count(10_240), cost=cost_of(kind, cost_us)).workload()

    return Entry(f"TP {_cost(kind, cost_us)}", make)


def _cost(kind: str, cost_us: float) -> str:
    return f"C {cost_us:g} {kind}" if cost_us else "C 0"
