"""How long a benchmark takes: in full, with `--quick`, or tiny, as tests run it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class Turns:
    """How often each contestant is measured: until the seconds are spent, within bounds."""

    seconds: float
    fewest: int
    most: int
    turn_s: float = 0.005  # a shorter turn measures the clock: it takes several batches

    def done(self, turns: int, seconds: float) -> float:
        """The share that is done: 1 or more when it is enough."""
        spent = seconds / self.seconds if self.seconds else 1.0
        return max(turns / self.most, min(turns / self.fewest, spent))


@dataclass(frozen=True)
class Scale:
    seconds: float  # of measuring, shared by all comparisons of a suite; a suite with slow contestants takes longer
    fewest_turns: int
    most_turns: int
    learning_batches: int  # that `auto` sees before it is measured
    quick: bool = False
    shrink: int = 1  # events and keys are divided by it

    def turns(self, comparisons: int = 1) -> Turns:
        """For one of so many comparisons."""
        turns = Turns(self.seconds / comparisons, self.fewest_turns, self.most_turns)
        return turns if self.shrink == 1 else dataclasses.replace(turns, turn_s=0.0)

    def count(self, size: int) -> int:
        """A number of events or keys."""
        return max(16, size // self.shrink)

    def pick(self, full: int, quick: int, tiny: int) -> int:
        return tiny if self.shrink > 1 else quick if self.quick else full

    def first(self, items: Sequence[Item], quick: int) -> list[Item]:
        """All items, or with `--quick` so many of them."""
        return list(items[: self.pick(len(items), quick, min(quick, 2))])

    def spread(self, items: Sequence[Item], quick: int) -> list[Item]:
        """All items, or with `--quick` so many of them, the first and the last among them."""
        wanted = len(self.first(items, quick))
        places = [round(index * (len(items) - 1) / max(1, wanted - 1)) for index in range(wanted)]
        return [items[place] for place in places]


FULL = Scale(seconds=150, fewest_turns=8, most_turns=200, learning_batches=16)
QUICK = Scale(seconds=30, fewest_turns=12, most_turns=60, learning_batches=12, quick=True)
TINY = Scale(seconds=0, fewest_turns=2, most_turns=2, learning_batches=1, quick=True, shrink=128)
