"""What a suite measures on: an app, its initial rows, and a stream cut into batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

import morphspark as ms
from morphspark.native import NativeCore
from morphspark.strategy import Strategy


@dataclass(frozen=True)
class Workload:
    app: ms.App
    state: Mapping[str, pa.Table]
    events: int  # of a batch
    generate: Callable[[int, int], pa.Table]  # (how many, number of the first)

    def batch(self, number: int) -> pa.Table:
        return self.generate(self.events, number * self.events)

    def open(self, config: ms.Config, forced: Strategy | None = None) -> ms.Engine:
        """An engine in the initial state. `forced`: a strategy that is for benchmarks only."""
        make_core = None if forced is None else functools.partial(NativeCore, forced=forced)
        engine = ms.Engine(self.app, None, config, make_core)
        for table, rows in self.state.items():
            engine.load(table, rows)
        return engine
