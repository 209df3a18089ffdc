"""What the runs of generated stories have met: counted, so that a test can ask for enough of it.

A run is one epoch of a story on one schedule. It counts if it ran as it was asked to: by that strategy and, if the
strategy's units are operations or chains, with at least one transaction that was cut into several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import model as m
import pyarrow as pa
from strategies import Epoch, Story, cuts

import morphspark as ms
from morphspark.testing import BothEngines, Schedule

Batch = Mapping[str, Any]  # of an epoch's metrics


class Tally:
    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()  # by strategy
        self.cascades: Counter[str] = Counter()  # runs with one, by strategy
        self.met: Counter[str] = Counter()  # runs, by what they had to do with
        self.switched: Counter[str] = Counter()  # epochs that `auto` ran in several ways, by each of these

    def add(self, story: Story, engines: BothEngines, one: Epoch, result: pa.Table) -> None:
        """What the engines have just made of an epoch."""
        lists, planned = has_lists(story.app), plan_of(story, engines, one, result)
        for schedule in story.schedules:
            if str(schedule) not in engines.engines:
                continue
            batches = engines.engines[str(schedule)].metrics[-1]["batches"]
            asked = schedule.strategy if isinstance(schedule.strategy, str) else "nested"
            ways = {batch["strategy"] for batch in batches if batch["events"]}
            self.switched.update(ways if asked == "auto" and len(ways) > 1 else ())
            if ran_as_asked(schedule, asked, ways, batches):
                self.runs[asked] += 1
                self.cascades[asked] += any(map(cascades, batches))
                self.met.update([f"threads={schedule.threads}", f"punctuation={schedule.punctuation}"])
                self.met.update(met(batches, planned))
                self.met["lists"] += lists
                self.met["lists, and cut"] += lists and any(map(is_cut, batches))

    def __str__(self) -> str:
        total = self.runs.total()
        shares = {name: f"{count} ({count / total:.0%})" for name, count in sorted(self.met.items())}
        return (
            f"(app, batch, schedule): {total}\n  with {shares}\n  of each strategy {dict(self.runs)}\n"
            f"  with a cascade {dict(self.cascades)}\n  epochs in which auto switched: {dict(self.switched)}"
        )


def ran_as_asked(schedule: Schedule, asked: str, ways: set[str], batches: Sequence[Batch]) -> bool:
    if asked == "auto":
        return bool(ways)
    return ways == {asked} and (not shall_cut(schedule) or any(map(is_cut, batches)))


def shall_cut(schedule: Schedule) -> bool:
    asked = schedule.strategy
    return any(map(cuts, [asked] if isinstance(asked, str) else asked.values()))


def is_cut(batch: Batch) -> bool:
    """Operations leave BLK once, by T1 or T3; those of transactions that are not cut are as many as the events."""
    made = batch["transitions"]
    return made["T1"] + made["T3"] > batch["events"]


def cascades(batch: Batch) -> bool:
    """A transaction ran again that does not abort itself: it had read what was taken back.

    Not with `tstream`, which redoes a batch with an abort as a whole.
    """
    return batch["strategy"] != "tstream" and batch["redone"] > batch["aborted"]


def met(batches: Sequence[Batch], planned: Mapping[str, Any] | None) -> Iterator[str]:
    found = {
        "cut": any(map(is_cut, batches)),
        "aborts": any(batch["aborted"] for batch in batches),
        "cascades": any(map(cascades, batches)),
        "redone by tstream": any(batch["strategy"] == "tstream" and batch["redone"] for batch in batches),
        "batches of 8": any(batch["events"] >= 8 for batch in batches),
        "dependencies": planned is not None and has_dependency(batches, planned),
        "aliases": planned is not None and planned["aliases"] > 0,
    }
    return (name for name, there in found.items() if there)


def plan_of(story: Story, engines: BothEngines, one: Epoch, result: pa.Table) -> Mapping[str, Any] | None:
    """The graph of the events that have just run, which is the same for all strategies; None: nobody knows it.

    By now all of them are late; an engine that would divert them leaves them out, so a fresh one is asked.
    """
    engine, events = engines.engines.get(str(story.schedules[0])), result.select(one.table.column_names)
    if engine is None or engine.app.late != "divert":
        return None if engine is None else engine.explain(events).counts
    with engine.app.open(config=ms.Config(threads=1)) as fresh:
        return fresh.explain(events).counts


def has_dependency(batches: Sequence[Batch], planned: Mapping[str, Any]) -> bool:
    """Between two transactions of one batch: one on another batch's does not make anybody wait."""
    assert planned["transactions"] == sum(batch["events"] for batch in batches)
    batch_of = [number for number, batch in enumerate(batches) for _ in range(batch["events"])]
    owner = [task for task, *_ in planned["accesses"]]
    return any(
        batch_of[task] == batch_of[owner[previous]] for task, _, _, previous, *_ in planned["accesses"] if previous >= 0
    )


def has_lists(app: m.AppModel) -> bool:
    """Whether one of its transactions goes through a list."""
    for one in app.transactions:
        inside = [statement for statement, _ in m.statements(one.body)]
        roots = [part for statement in inside for part in m.parts(statement)] + [value for _, value in one.returns]
        if any(isinstance(node, m.Reduce) for root in roots for node, _ in m.walk(root)):
            return True
        if any(isinstance(statement, m.Each) for statement in inside):
            return True
    return False
