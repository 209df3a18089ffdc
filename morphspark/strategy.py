"""The names of strategies, and what the core calls them.

serial                              one thread, event order, no graph
{exploration}/{unit}/{abort}        the task precedence graph; exploration s-explore-bfs, s-explore-dfs, ns-explore
lock, mvlk, pat, tstream            the schemes of the literature
auto                                chosen for each batch
{name: strategy, …}                 nested: a point of the graph's space for each transaction, by its function's name;
                                    "*" is for those that are not named
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .errors import ConfigError, did_you_mean

# In the order of csrc/execute/strategy.h.
SCHEMES = ("serial", "explore", "lock", "mvlk", "pat", "tstream", "nested", "nolock")
NO_NAMES = ("explore", "nested", "nolock")  # schemes that nobody can ask for by these words
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
    points = {name: Strategy(index) for index, name in enumerate(SCHEMES) if name not in NO_NAMES}
    for exploration, explored in enumerate(EXPLORATIONS):
        for unit, united in enumerate(UNITS):
            if united == "v-schedule" and explored != "s-explore-bfs":
                continue  # a stratum as a unit needs strata with barriers
            for abort, aborted in enumerate(ABORTS):
                points[f"{explored}/{united}/{aborted}"] = Strategy(SCHEMES.index("explore"), exploration, unit, abort)
    return points


FIXED = _points()
NAMES = ("auto", *FIXED)
NESTED = Strategy(SCHEMES.index("nested"))
NOLOCK = Strategy(SCHEMES.index("nolock"))  # for benchmarks
OTHERS = "*"

# In the order of `Why` in csrc/execute/adviser.h.
WHY = (
    "configured",
    "to learn what a transaction costs",
    "a trial: it could win on batches like this",
    "best of those measured on batches like this",
    "again, as it may have become the best since it was measured",
    "the strategy can't run transactions like these",
    "too little work to be worth a choice",
    "to learn what planning costs on this machine",
    "windows, computed keys and functions need whole transactions as units",
)
_NAMES = {**{strategy: name for name, strategy in reversed(FIXED.items())}, NESTED: "nested", NOLOCK: "nolock"}


def as_whole(name: str) -> str:
    """What a point of the space becomes where transactions can't be cut."""
    return name.replace("/f-", "/t-").replace("/c-", "/t-")


def name_of(strategy: tuple[int, ...]) -> str:
    return _NAMES[Strategy(*strategy)]


_SPACE = (
    f"{'|'.join(EXPLORATIONS)} / f-schedule|c-schedule|t-schedule / {'|'.join(ABORTS)} (v-schedule with s-explore-bfs)"
)


def check(strategy: object) -> None:
    """Fail unless it is a strategy by its form; whether transactions have the names in it is not known here."""
    if not isinstance(strategy, Mapping):
        if strategy not in NAMES:
            words = ", ".join(name for name in NAMES if "/" not in name)
            raise ConfigError(
                f"strategy={strategy!r}: expected one of {words}, or {_SPACE}, or one of these for each transaction"
                + did_you_mean(strategy, NAMES)
            )
        return
    points = [name for name in FIXED if "/" in name]
    for transaction, one in strategy.items():
        if one not in points:
            raise ConfigError(
                f"strategy of {transaction!r}: {one!r} can't be one of several in a batch; expected {_SPACE}"
                + did_you_mean(one, points)
            )


def check_names(strategies: Mapping[str, str], transactions: Sequence[str]) -> None:
    """Fail unless every transaction of an app has a strategy, and every strategy a transaction."""
    for name in strategies:
        if name not in transactions and name != OTHERS:
            raise ConfigError(
                f"strategy of {name!r}: there is no such transaction (transactions: {', '.join(transactions)}; "
                f"{OTHERS!r}: all that are not named)"
            )
    for name in transactions:
        if name not in strategies and OTHERS not in strategies:
            raise ConfigError(f"strategy: transaction {name!r} has none; name it, or give {OTHERS!r} for all others")


def by_transaction(strategies: Mapping[str, str], transactions: Sequence[str]) -> list[Strategy]:
    """The strategy of each transaction: all of an app's, or some."""
    return [FIXED[strategies.get(name) or strategies[OTHERS]] for name in transactions]
