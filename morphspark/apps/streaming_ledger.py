"""Streaming Ledger (SL): money and goods move between accounts and assets, and none is lost.

    accounts(balance)  assets(amount)        both start at zero, so all there is was once deposited
    deposit     2 writes                     to an account and an asset
    transfer    4 conditional writes         from an account and an asset to others; aborts if either is short

Events come from Spark (`stream`, for jobs) or from numpy (`generate`, for benchmarks and tests). Both are
functions of their arguments alone: the same call gives the same events, and so does a replayed micro-batch.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import morphspark as ms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from morphspark.app import Table

EVENTS = {
    "ts": "timestamp",
    "kind": "string",
    "account": "string",
    "asset": "string",
    "to_account": "string",  # null in a deposit, as is to_asset
    "to_asset": "string",
    "amount": "int64",
    "quantity": "int64",
}

# 2026-01-01 00:00 UTC. Event i happens i microseconds later, so `ts` is unique.
START_US = 1_767_225_600_000_000
DEPOSIT_MAX = 1_000
TRANSFER_MAX = 200
UNAFFORDABLE = 1_000_000_000_000_000  # what a transfer asks for if it is to abort
KEY_DIGITS = 6


def declare_books(app: ms.App) -> tuple[Table, Table]:
    """Both tables, and deposits to them."""
    accounts = app.table("accounts", key="string", columns={"balance": "int64"}, default={"balance": 0})
    assets = app.table("assets", key="string", columns={"amount": "int64"}, default={"amount": 0})

    @app.on(kind="deposit")
    def deposit(e):
        accounts[e.account].balance += e.amount
        assets[e.asset].amount += e.quantity

    return accounts, assets


def build() -> ms.App:
    """The application: the books, and transfers between them."""
    app = ms.App("ledger", order_by="ts", events=EVENTS)
    accounts, assets = declare_books(app)

    @app.on(kind="transfer")
    def transfer(e):
        payer, payee = accounts[e.account], accounts[e.to_account]
        source, target = assets[e.asset], assets[e.to_asset]
        ms.require(payer.balance >= e.amount, "insufficient funds")
        ms.require(source.amount >= e.quantity, "insufficient assets")
        payer.balance -= e.amount
        payee.balance += e.amount
        source.amount -= e.quantity
        target.amount += e.quantity
        return {"balance": payer.balance}

    return app


# ------------------------------------------------------------------------------------------ events from Spark


def stream(
    spark: SparkSession,
    rows_per_batch: int,
    accounts: int = 100_000,
    theta: float = 0.6,
    transfer_ratio: float = 0.5,
    abort_ratio: float = 0.01,
    seed: int = 0,
    partitions: int | None = None,
) -> DataFrame:
    """A streaming DataFrame of ledger events, `rows_per_batch` in each micro-batch.

    Everything is an SQL expression over hashes of the row number: no Python runs per row.
    """
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows_per_batch)
    if partitions is not None:  # else one per core
        rows = rows.option("numPartitions", partitions)
    return events_of(rows.load(), "value", accounts, theta, transfer_ratio, abort_ratio, seed)


def events_of(
    rows: DataFrame,
    number: str,
    accounts: int = 100_000,
    theta: float = 0.6,
    transfer_ratio: float = 0.5,
    abort_ratio: float = 0.01,
    seed: int = 0,
) -> DataFrame:
    """Ledger events from rows that have a column with their number, which is all that is used of them."""
    from pyspark.sql import functions as F

    _check_knobs(accounts, theta, transfer_ratio, abort_ratio)
    n = F.col(number)
    power = 1 - theta if theta != 1 else 1e-6  # at 1 the integral below is a logarithm; this is as good
    lowest, highest = 0.5**power, (accounts + 0.5) ** power

    def uniform(salt: str) -> Column:
        """A number in [0, 1) of 53 random bits."""
        return F.shiftrightunsigned(F.xxhash64(n, F.lit(f"{salt}/{seed}")), 11) / F.lit(float(2**53))

    def key(prefix: str, salt: str) -> Column:
        # Zipf's law made continuous: x from 1/2 to accounts + 1/2 with a density of x^-θ, by the inverse of
        # its integral, then rounded to a rank from 1.
        x = F.pow(lowest + uniform(salt) * (highest - lowest), F.lit(1 / power))
        index = F.least(F.floor(x + 0.5), F.lit(accounts)) - 1
        return F.concat(F.lit(prefix), F.lpad(index.cast("string"), _digits(accounts), "0"))

    def amount(salt: str) -> Column:
        largest = F.when(transfer, TRANSFER_MAX).otherwise(DEPOSIT_MAX)
        return F.floor(uniform(salt) * largest).cast("bigint") + 1

    transfer = uniform("kind") < transfer_ratio
    hopeless = transfer & (uniform("abort") < abort_ratio)
    return rows.select(
        F.timestamp_micros(n + START_US).alias("ts"),
        F.when(transfer, "transfer").otherwise("deposit").alias("kind"),
        key("account-", "account").alias("account"),
        key("asset-", "asset").alias("asset"),
        F.when(transfer, key("account-", "to_account")).alias("to_account"),
        F.when(transfer, key("asset-", "to_asset")).alias("to_asset"),
        F.when(hopeless, UNAFFORDABLE).otherwise(amount("amount")).alias("amount"),
        amount("quantity").alias("quantity"),
    )


# ------------------------------------------------------------------------------------------ events from numpy


def generate(
    rows: int,
    accounts: int = 100_000,
    theta: float = 0.6,
    transfer_ratio: float = 0.5,
    abort_ratio: float = 0.01,
    seed: int = 0,
    first: int = 0,
) -> pa.Table:
    """Events number `first` to `first + rows - 1` as a table.

    Keys follow Zipf's law exactly: the r-th most popular has a probability in proportion to r^-theta.
    `abort_ratio` is the share of *transfers* that ask for more than anybody has; others abort only if a
    balance is really too small, which `initial_state` prevents.
    """
    _check_knobs(accounts, theta, transfer_ratio, abort_ratio)
    random = np.random.default_rng([seed, first])
    transfer = random.random(rows) < transfer_ratio
    hopeless = transfer & (random.random(rows) < abort_ratio)
    largest = np.where(transfer, TRANSFER_MAX, DEPOSIT_MAX)
    amount = random.integers(1, largest + 1)
    cumulative = zipf_cumulative(accounts, theta)

    def keys(prefix: str, null: np.ndarray | None = None) -> pa.Array:
        ranks = np.searchsorted(cumulative, random.random(rows), side="right")
        return _key_names(prefix, accounts, seed).take(pa.array(ranks, mask=null))

    return pa.table(
        {
            "ts": pa.array(np.arange(first, first + rows) + START_US).cast(pa.timestamp("us", "UTC")),
            "kind": pc.if_else(pa.array(transfer), "transfer", "deposit"),
            "account": keys("account-"),
            "asset": keys("asset-"),
            "to_account": keys("account-", null=~transfer),
            "to_asset": keys("asset-", null=~transfer),
            "amount": np.where(hopeless, UNAFFORDABLE, amount),
            "quantity": random.integers(1, largest + 1),
        }
    )


def initial_state(accounts: int = 100_000, amount: int = 1_000_000_000) -> dict[str, pa.Table]:
    """Rows for `engine.load`, rich enough that no transfer aborts by chance."""
    full = pa.array(np.full(accounts, amount, np.int64))
    return {
        "accounts": pa.table({"key": _key_names("account-", accounts, None), "balance": full}),
        "assets": pa.table({"key": _key_names("asset-", accounts, None), "amount": full}),
    }


@functools.lru_cache(maxsize=8)
def zipf_cumulative(items: int, theta: float) -> np.ndarray:
    """P(rank <= r) for r = 1 … items; the last is exactly 1."""
    cumulative = np.cumsum(np.arange(1, items + 1, dtype=np.float64) ** -theta)
    cumulative /= cumulative[-1]
    cumulative.flags.writeable = False  # the next caller gets the same array
    return cumulative


@functools.lru_cache(maxsize=8)
def _key_names(prefix: str, count: int, seed: int | None) -> pa.Array:
    """All keys; with a seed in an order of its own, so that the hot ones are spread over the table."""
    numbers = np.arange(count)
    if seed is not None:
        numbers = np.random.default_rng([seed, count]).permutation(numbers)
    padded = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), _digits(count), padding="0")
    return pc.binary_join_element_wise(prefix, padded, "")


def _digits(count: int) -> int:
    return max(KEY_DIGITS, len(str(count - 1)))


def _check_knobs(accounts: int, theta: float, transfer_ratio: float, abort_ratio: float) -> None:
    if accounts < 1:
        raise ms.ConfigError(f"accounts={accounts}: expected at least 1")
    if theta < 0:
        raise ms.ConfigError(f"theta={theta}: expected a skew of 0 (uniform) or more")
    for name, share in (("transfer_ratio", transfer_ratio), ("abort_ratio", abort_ratio)):
        if not 0 <= share <= 1:
            raise ms.ConfigError(f"{name}={share}: expected a share from 0 to 1")
