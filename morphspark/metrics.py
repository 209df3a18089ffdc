"""What happened in each epoch: counts, the decision, and where the time went."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

EPOCHS_KEPT, BATCHES_KEPT = 1_000, 4_000  # a batch takes some kilobytes
TICKET_SCHEMES = ("lock", "mvlk", "pat")
PARTS = ("useful_ms", "sync_ms", "lock_ms", "construct_ms", "explore_ms", "abort_ms")


class Metrics:
    """One record (a dict) per epoch, the newest last: of the last thousand, fewer where they had many batches."""

    def __init__(self) -> None:
        self._records: deque[dict[str, Any]] = deque()
        self._batches = 0  # of all records

    def add(self, record: dict[str, Any]) -> None:
        self._records.append(record)
        self._batches += len(record["batches"])
        while len(self._records) > 1 and (len(self._records) > EPOCHS_KEPT or self._batches > BATCHES_KEPT):
            self._batches -= len(self._records.popleft()["batches"])

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._records)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return list(self._records)[index] if isinstance(index, slice) else self._records[index]

    def to_pandas(self, batches: bool = False) -> Any:
        """A row per epoch; with `batches` one per batch, beside the number of its epoch."""
        import pandas as pd

        if not batches:
            return pd.DataFrame(list(self._records))
        return pd.json_normalize(
            [{"epoch": one["epoch"], **batch} for one in self._records for batch in one["batches"]]
        )

    def __repr__(self) -> str:
        return f"<morphspark metrics of {len(self)} epochs>"


def main_strategy(batches: Sequence[Mapping[str, Any]]) -> str:
    """The strategy that ran most events of an epoch."""
    events: Counter[str] = Counter()
    for one in batches:
        events[one["strategy"]] += one["events"]
    return max(events, key=events.__getitem__, default="serial")


def parts(batch: Mapping[str, Any]) -> dict[str, float | None]:
    """Where the threads' time went in a batch.

    The six parts are times of threads, added up over those of the batch: one with `serial`, else all.
    Together they are its time on the clock × its threads.

    useful     inside transactions, also what is taken back
    sync       waiting: for a barrier, for one's turn or ticket, for what another thread does, or for its end
    lock       drawing tickets of the ordered schemes and giving them back
    construct  planning, building units, installing versions; who has nothing to do meanwhile is counted, too
    explore    finding the next unit
    abort      running again what read something that was taken back, and waiting for that

    What a unit takes is measured with Config(observe=True) only. Without it `useful` has everything in it that is done
    between waiting, and the part for finding units (`lock` or `explore`) is None.
    """
    found: dict[str, float | None] = dict.fromkeys(PARTS, 0.0)
    if batch["strategy"] == "serial":
        return {**found, "useful_ms": batch["measured_ms"]}
    clock, threads = batch["clock"], batch["threads"]
    waiting = min(batch["waiting_ms"], clock["explore_ms"] * threads)
    working = clock["explore_ms"] * threads - waiting
    observed = batch["in_units_ms"] is not None
    useful = min(batch["in_units_ms"], working) if observed else working
    return {
        **found,
        "useful_ms": useful,
        "sync_ms": waiting,
        "lock_ms" if batch["strategy"] in TICKET_SCHEMES else "explore_ms": working - useful if observed else None,
        "abort_ms": clock["redo_ms"] * threads,
        "construct_ms": (batch["measured_ms"] - clock["explore_ms"] - clock["redo_ms"]) * threads,
    }


def breakdown(batches: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The parts of all batches of an epoch, None where one was not measured, and what their graphs took."""
    sums: dict[str, Any] = {
        name: None if None in (times := [one["parts"][name] for one in batches]) else sum(times) for name in PARTS
    }
    sums.update(plan_operations=0, plan_ms=0.0, graph_bytes=0, version_bytes=0, peak_bytes=0)
    for one in batches:
        if one["strategy"] == "serial":
            continue
        sums["plan_operations"] += one["operations"]
        sums["plan_ms"] += one["clock"]["plan_ms"]
        for name in ("graph_bytes", "version_bytes"):
            sums[name] = max(sums[name], one[name])
    sums["peak_bytes"] = sums["graph_bytes"] + sums["version_bytes"]
    return sums


def ms_since(started: float) -> float:
    """Milliseconds since a reading of `time.perf_counter()`."""
    return (time.perf_counter() - started) * 1e3
