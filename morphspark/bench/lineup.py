"""Who takes part: names of strategies, and which of them this version has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import morphspark as ms
from morphspark import strategy
from morphspark.bench.workloads.workload import Workload

AUTO, SERIAL = "auto", "serial"
TSTREAM = "tstream"
LITERATURE = ("lock", "mvlk", "pat", TSTREAM)  # besides serial
NOLOCK = "nolock"  # an upper bound whose results are wrong
EXPLORATIONS = ("s-explore-bfs", "s-explore-dfs", "ns-explore")
UNITS = ("f-schedule", "c-schedule", "t-schedule", "v-schedule")
ABORTS = ("e-abort", "l-abort")


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
    return [name for name in strategy.NAMES if name != AUTO]


def parallel() -> list[str]:
    return [name for name in fixed() if name != SERIAL]


def space(explorations: Iterable[str], units: Iterable[str], aborts: Iterable[str]) -> list[str]:
    """Points of the scheduling space, whether or not they are there. A stratum as a unit needs strata with barriers."""
    units, aborts = list(units), list(aborts)
    return [
        f"{exploration}/{unit}/{abort}"
        for exploration in explorations
        for unit in units
        if unit != "v-schedule" or exploration == "s-explore-bfs"
        for abort in aborts
    ]
