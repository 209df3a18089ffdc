"""Streaming Ledger (SL) with a cost per write: string keys, the events of morphspark/apps/streaming_ledger.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import morphspark as ms
from morphspark.apps import streaming_ledger
from morphspark.bench.work import FREE, Cost, work
from morphspark.bench.workloads.workload import Workload


@dataclass(frozen=True)
class Ledger:
    events: int = 10_240
    keys: int = 100_000  # accounts, and as many assets
    theta: float = 0.2
    aborts: float = 0.01
    transfers: float = 0.5  # the other transactions are deposits
    hot: float = 0.0  # share of events with one and the same asset, while accounts are scattered
    cost: Cost = FREE
    seed: int = 7

    def workload(self) -> Workload:
        return Workload(build(self.cost), streaming_ledger.initial_state(self.keys), self.events, self.generate)

    def generate(self, rows: int, first: int) -> pa.Table:
        # Only transfers can abort.
        of_transfers = min(1.0, self.aborts / self.transfers) if self.transfers else 0.0
        events = streaming_ledger.generate(
            rows, self.keys, self.theta, self.transfers, of_transfers, self.seed, first
        )  # fmt: skip
        return self._heated(events, first) if self.hot else events

    def _heated(self, events: pa.Table, first: int) -> pa.Table:
        hot = np.random.default_rng([self.seed, first, 1]).random(events.num_rows) < self.hot
        one = streaming_ledger.initial_state(self.keys)["assets"]["key"][0]
        assets = pc.if_else(pa.array(hot), one, events["asset"])
        return events.set_column(events.column_names.index("asset"), "asset", assets)


def build(cost: Cost) -> ms.App:
    """The program of the streaming ledger, in which every written value goes through `work`."""
    app = ms.App("ledger", order_by="ts", events=streaming_ledger.EVENTS)
    accounts = app.table("accounts", key="string", columns={"balance": "int64"}, default={"balance": 0})
    assets = app.table("assets", key="string", columns={"amount": "int64"}, default={"amount": 0})

    @app.on(kind="deposit")
    def deposit(e: Any) -> None:
        account = accounts[e.account]
        account.balance = work(account.balance + e.amount, cost)
        asset = assets[e.asset]
        asset.amount = work(asset.amount + e.quantity, cost)

    @app.on(kind="transfer")
    def transfer(e: Any) -> Any:
        payer, payee = accounts[e.account], accounts[e.to_account]
        source, target = assets[e.asset], assets[e.to_asset]
        ms.require(payer.balance >= e.amount, "insufficient funds")
        ms.require(source.amount >= e.quantity, "insufficient assets")
        payer.balance = work(payer.balance - e.amount, cost)
        payee.balance = work(payee.balance + e.amount, cost)
        source.amount = work(source.amount - e.quantity, cost)
        target.amount = work(target.amount + e.quantity, cost)
        return {"balance": payer.balance}

    return app
