"""Streaming Ledger whose transfers are checked by built-in operations, by functions that do the same, or by a model.

    builtin    (balance >= amount) & (assets >= quantity)
    compiled   the same as a compiled function
    python     the same as a function with python=True
    model      a small neural network, as a function with vector=True

The model's weights and activations are whole numbers, so that its sums are exact: row i of a result depends on row i
alone, to the last bit, however many rows are scored at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import morphspark as ms
from morphspark.apps import streaming_ledger
from morphspark.bench.workloads.workload import Workload

LAYERS = (3, 8, 8, 8, 8, 8, 8, 8, 1)
WEIGHT_MAX = 7
SCALE_BITS = 6  # that each layer's sums lose

_random = np.random.default_rng(1)
_WEIGHTS = [
    _random.integers(-WEIGHT_MAX, WEIGHT_MAX + 1, shape).astype(np.float64)
    for shape in zip(LAYERS, LAYERS[1:], strict=False)
]


def affordable(balance: int, amount: int, goods: int, quantity: int) -> bool:
    return balance >= amount and goods >= quantity


def score(balance: np.ndarray, amount: np.ndarray, goods: np.ndarray) -> np.ndarray:
    """Positive for what is not affordable, and for nothing else; the network says by how much."""
    hidden = np.stack([balance, amount, goods], axis=1).astype(np.float64)
    for weights in _WEIGHTS:
        hidden = np.floor(np.maximum(hidden @ weights, 0.0) * 2.0**-SCALE_BITS)
    return np.where(amount > balance, 1.0 + hidden[:, 0], -hidden[:, 0])


compiled = ms.udf("bool")(affordable)
in_python = ms.udf("bool", python=True)(affordable)
model = ms.udf("float64", vector=True)(score)


def by_builtin(e: Any, payer: Any, source: Any) -> Any:
    return (payer.balance >= e.amount) & (source.amount >= e.quantity)


def by_compiled(e: Any, payer: Any, source: Any) -> Any:
    return compiled(payer.balance, e.amount, source.amount, e.quantity)


def by_python(e: Any, payer: Any, source: Any) -> Any:
    return in_python(payer.balance, e.amount, source.amount, e.quantity)


def by_model(e: Any, payer: Any, source: Any) -> Any:
    return model(payer.balance, e.amount, source.amount) <= 0.0


@dataclass(frozen=True)
class CheckedLedger:
    check: Callable[[Any, Any, Any], Any]
    events: int = 10_240
    keys: int = 100_000
    theta: float = 0.0
    aborts: float = 0.01
    transfers: float = 1.0
    seed: int = 7

    def workload(self) -> Workload:
        state = streaming_ledger.initial_state(self.keys)
        return Workload(build(self.check), state, self.events, self.generate)

    def generate(self, rows: int, first: int) -> pa.Table:
        of_transfers = min(1.0, self.aborts / self.transfers)
        return streaming_ledger.generate(
            rows, self.keys, self.theta, self.transfers, of_transfers, self.seed, first
        )  # fmt: skip


def build(check: Callable[[Any, Any, Any], Any]) -> ms.App:
    app = ms.App("ledger", order_by="ts", events=streaming_ledger.EVENTS)
    accounts, assets = streaming_ledger.declare_books(app)

    @app.on(kind="transfer")
    def transfer(e: Any) -> Any:
        payer, payee = accounts[e.account], accounts[e.to_account]
        source, target = assets[e.asset], assets[e.to_asset]
        ms.require(check(e, payer, source), "insufficient")
        payer.balance -= e.amount
        payee.balance += e.amount
        source.amount -= e.quantity
        target.amount += e.quantity
        return {"balance": payer.balance}

    return app
