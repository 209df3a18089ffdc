"""Streaming Ledger as people write it without an engine: a Python dict loop over Arrow columns."""

from __future__ import annotations

import pyarrow as pa

COLUMNS = ("kind", "account", "asset", "to_account", "to_asset", "amount", "quantity")


class DictLoop:
    """Shared state in two dicts, memory only: no durability, no exactly-once, one core."""

    def __init__(self, initial: int):
        self.initial = initial
        self.accounts: dict[str, int] = {}
        self.assets: dict[str, int] = {}

    def process(self, events: pa.Table) -> pa.Array:
        """Each column to Python once, one loop, the statuses back to Arrow."""
        columns = [events.column(name).to_pylist() for name in COLUMNS]
        accounts, assets, initial = self.accounts, self.assets, self.initial
        status = []
        for kind, account, asset, to_account, to_asset, amount, quantity in zip(*columns, strict=True):
            balance, stock = accounts.get(account, initial), assets.get(asset, initial)
            if kind == "deposit":
                accounts[account] = balance + amount
                assets[asset] = stock + quantity
                status.append("committed")
            elif balance >= amount and stock >= quantity:
                accounts[account] = balance - amount
                accounts[to_account] = accounts.get(to_account, initial) + amount
                assets[asset] = stock - quantity
                assets[to_asset] = assets.get(to_asset, initial) + quantity
                status.append("committed")
            else:
                status.append("aborted")
        return pa.array(status)
