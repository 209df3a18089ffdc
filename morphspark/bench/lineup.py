"""Who takes part: strategies of morphspark/strategy.py, by name."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import morphspark as ms
from morphspark import strategy
from morphspark.bench.workloads.workload import Workload

AUTO, SERIAL = "auto", "serial"
TSTREAM = "tstream"
LITERATURE = tuple(name for name in strategy.FIXED if "/" not in name and name != SERIAL)
NOLOCK = "nolock"  # an upper bound whose results are wrong


@dataclass(frozen=True)
class Entrant:
    """A strategy with a number of threads, under a name of its own."""

    name: str
    strategy: str | Mapping[str, str]
    threads: int | None = None  # None: one per core
    observe: bool = False  # time every unit

    @property
    def learns(self) -> bool:
        return self.strategy == AUTO

    @property
    def correct(self) -> bool:
        return self.strategy != NOLOCK

    def open(self, workload: Workload) -> ms.Engine:
        """An epoch has the events of one punctuation interval, which `auto` may divide further."""
        config = ms.Config(
            strategy=self.strategy if self.correct else SERIAL,
            threads=self.threads,
            punctuation="auto" if self.learns else workload.events,
            observe=self.observe,
        )
        return workload.open(config, forced=None if self.correct else strategy.NOLOCK)


def entrants(
    names: Iterable[str],
    threads: int | None = None,
    observe: bool = False,
    nested: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Entrant]:
    """One for each name; `nested` says which names stand for several strategies."""
    return [Entrant(name, (nested or {}).get(name, name), threads, observe) for name in dict.fromkeys(names)]


def fixed() -> list[str]:
    """Every strategy that `auto` can be measured against: all but `auto` itself."""
    return list(strategy.FIXED)


def distinct() -> list[str]:
    """Of those with two names one: whole transactions are settled at once, so with them l-abort is e-abort."""
    return [name for name in fixed() if not name.endswith(("t-schedule/l-abort", "v-schedule/l-abort"))]


def space(
    explorations: Iterable[str] = strategy.EXPLORATIONS,
    units: Iterable[str] = strategy.UNITS,
    aborts: Iterable[str] = strategy.ABORTS,
) -> list[str]:
    """Points of the scheduling space: all, or those with these explorations, units and ways to abort."""
    wanted = {"/".join(point) for point in itertools.product(explorations, units, aborts)}
    return [name for name in strategy.FIXED if name in wanted]
