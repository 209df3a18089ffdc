"""The cost C of a user function: a benchmark-only instruction that gives back its argument after some arithmetic.

    t[k].value += work(e.x, Cost("smooth", 1_000))

The amount is a number of rounds, fixed when the app is built. `cost_of` measures how many of them take a time on
this machine, once; what is measured later is always that same arithmetic, never a clock.
"""

from __future__ import annotations

import functools
import time
from typing import Any, NamedTuple

import pyarrow as pa

import morphspark as ms
from morphspark.expr import Value
from morphspark.machine_code import WORK_KINDS
from morphspark.trace import current_tracer
from morphspark.types import INT64

PROBE_ROUNDS = 1_000
PROBE_EVENTS = 1_000
PROBES = 15


class Cost(NamedTuple):
    """`smooth` vectorises, `branchy` does not."""

    kind: str
    rounds: int


FREE = Cost("smooth", 0)


def work(value: Value, cost: Cost) -> Value:
    assert cost.kind in WORK_KINDS, cost.kind
    if cost.rounds == 0:
        return value
    tracer = current_tracer("work")
    operand, _ = tracer.operand(value)
    return tracer.step("work", (operand,), INT64, text=f"{cost.kind}:{cost.rounds}")


def cost_of(kind: str, microseconds: float) -> Cost:
    """The number of rounds that take one transaction so long on one thread."""
    return Cost(kind, round(microseconds * 1e3 / nanoseconds_per_round(kind)))


@functools.cache
def nanoseconds_per_round(kind: str) -> float:
    seconds = [_probe(Cost(kind, rounds)) for rounds in (PROBE_ROUNDS, 2 * PROBE_ROUNDS)]
    return (seconds[1] - seconds[0]) / PROBE_EVENTS / PROBE_ROUNDS * 1e9


def _probe(cost: Cost) -> float:
    app = ms.App("probe", order_by="i")

    @app.on()
    def probe(e: Any) -> Any:
        return {"y": work(e.i, cost)}

    events = pa.table({"i": range(PROBE_EVENTS)})
    with app.open(config=ms.Config(strategy="serial", threads=1)) as engine:
        spent = []
        for _ in range(PROBES):
            started = time.thread_time()  # with one thread, all is done in this one; what others take does not count
            engine.process(events)
            spent.append(time.thread_time() - started)
    return min(spent)
