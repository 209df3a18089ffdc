"""Streaming Ledger in four phases, in each of which one property of the stream rises."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import pyarrow as pa

from morphspark.bench.workloads.ledger import Ledger
from morphspark.bench.workloads.workload import Workload


class Phase(NamedTuple):
    """Each property goes from a value to a value."""

    name: str
    theta: tuple[float, float]
    transfers: tuple[float, float]
    aborts: tuple[float, float]


PHASES = (
    Phase("scattered deposits", (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),
    Phase("rising skew", (0.0, 0.99), (0.0, 0.0), (0.0, 0.0)),
    Phase("rising transfers", (0.6, 0.6), (0.0, 1.0), (0.0, 0.0)),
    Phase("rising aborts", (0.6, 0.6), (1.0, 1.0), (0.0, 0.6)),
)


class Phases:
    """`warm_up` batches as in the first phase, then `batches` in each phase."""

    def __init__(self, knobs: Ledger, warm_up: int, batches: int):
        self._knobs = knobs
        self.warm_up = warm_up
        self.batches = batches

    def __len__(self) -> int:
        return self.warm_up + len(PHASES) * self.batches

    def phase(self, number: int) -> int:
        """Of a batch, from 0."""
        return max(0, number - self.warm_up) // self.batches

    def knobs(self, number: int) -> Ledger:
        phase = PHASES[self.phase(number)]
        place = max(0, number - self.warm_up) % self.batches / max(1, self.batches - 1)

        def at(span: tuple[float, float]) -> float:
            return span[0] + place * (span[1] - span[0])

        return dataclasses.replace(
            self._knobs, theta=at(phase.theta), transfers=at(phase.transfers), aborts=at(phase.aborts)
        )

    def workload(self) -> Workload:
        events = self._knobs.events

        def generate(rows: int, first: int) -> pa.Table:
            return self.knobs(first // events).generate(rows, first)

        return dataclasses.replace(self._knobs.workload(), generate=generate)
