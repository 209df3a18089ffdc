"""What a suite measures on: an app, its initial rows, and a stream cut into batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

import morphspark as ms


@dataclass(frozen=True)
class Workload:
    name: str
    app: ms.App
    state: Mapping[str, pa.Table]
    events: int  # of a batch
    generate: Callable[[int, int], pa.Table]  # (how many, number of the first)

    def batch(self, number: int) -> pa.Table:
        return self.generate(self.events, number * self.events)

    def open(self, config: ms.Config) -> ms.Engine:
        """An engine in the initial state."""
        engine = self.app.open(config=config)
        for table, rows in self.state.items():
            engine.load(table, rows)
        return engine
