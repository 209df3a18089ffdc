"""The names of strategies, and what the core calls them.

serial                              one thread, event order, no graph
{exploration}/{unit}/{abort}        the task precedence graph; exploration s-explore-bfs, s-explore-dfs, ns-explore
lock, mvlk, pat                     the schemes of the literature
auto                                chosen for each batch
"""

from __future__ import annotations

from typing import NamedTuple

# In the order of csrc/execute/strategy.h.
SCHEMES = ("serial", "explore", "lock", "mvlk", "pat")
EXPLORATIONS = ("s-explore-bfs", "s-explore-dfs", "ns-explore")
UNITS = ("t-schedule", "v-schedule")
ABORTS = ("e-abort", "l-abort")


class Strategy(NamedTuple):
    """What the core is told."""

    scheme: int
    exploration: int = 0
    unit: int = 0
    lanes_min: int = 16


def _points() -> dict[str, Strategy]:
    points = {name: Strategy(index) for index, name in enumerate(SCHEMES) if name != "explore"}
    for exploration, explored in enumerate(EXPLORATIONS):
        for unit, united in enumerate(UNITS):
            if united == "v-schedule" and explored != "s-explore-bfs":
                continue  # a stratum as a unit needs strata with barriers
            for abort in ABORTS:
                points[f"{explored}/{united}/{abort}"] = Strategy(SCHEMES.index("explore"), exploration, unit)
    return points


FIXED = _points()
NAMES = ("auto", *FIXED)
