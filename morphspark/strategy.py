"""The names of strategies, and what the core calls them.

serial                              one thread, event order, no graph
{exploration}/{unit}/{abort}        the task precedence graph; exploration s-explore-bfs, s-explore-dfs, ns-explore
lock, mvlk, pat                     the schemes of the literature
auto                                chosen for each batch
"""

from __future__ import annotations

from typing import NamedTuple

# In the order of csrc/execute/strategy.h.
SCHEMES = ("serial", "explore", "lock", "mvlk", "pat", "tstream")
EXPLORATIONS = ("s-explore-bfs", "s-explore-dfs", "ns-explore")
UNITS = ("f-schedule", "c-schedule", "t-schedule", "v-schedule")
ABORTS = ("e-abort", "l-abort")


class Strategy(NamedTuple):
    """What the core is told."""

    scheme: int
    exploration: int = 0
    unit: int = UNITS.index("t-schedule")
    abort: int = 0


def _points() -> dict[str, Strategy]:
    points = {name: Strategy(index) for index, name in enumerate(SCHEMES) if name != "explore"}
    for exploration, explored in enumerate(EXPLORATIONS):
        for unit, united in enumerate(UNITS):
            if united == "v-schedule" and explored != "s-explore-bfs":
                continue  # a stratum as a unit needs strata with barriers
            for abort, aborted in enumerate(ABORTS):
                points[f"{explored}/{united}/{aborted}"] = Strategy(SCHEMES.index("explore"), exploration, unit, abort)
    return points


FIXED = _points()
NAMES = ("auto", *FIXED)

# In the order of `Why` in csrc/execute/adviser.h.
WHY = (
    "configured",
    "to learn what a transaction costs",
    "a trial: it could win on batches like this",
    "best of those measured on batches like this",
    "again, as it was close to the best a while ago",
    "keys are known only when transactions run",
    "too few transactions to be worth a choice",
)
_NAMES = {strategy: name for name, strategy in reversed(FIXED.items())}


def name_of(strategy: tuple[int, ...]) -> str:
    return _NAMES[Strategy(*strategy)]
