"""Events for the ledger of api.md, the same in Arrow and in Spark."""

import pyarrow as pa

# A deposit for a, one for b, a transfer from a to b, and one that a can't afford.
EVENTS = [
    {
        "ts": 1,
        "kind": "deposit",
        "account": "a",
        "to_account": None,
        "asset": "x",
        "amount": 100,
        "quantity": 1,
    },
    {
        "ts": 2,
        "kind": "deposit",
        "account": "b",
        "to_account": None,
        "asset": "x",
        "amount": 10,
        "quantity": 1,
    },
    {
        "ts": 3,
        "kind": "transfer",
        "account": "a",
        "to_account": "b",
        "asset": None,
        "amount": 70,
        "quantity": None,
    },
    {
        "ts": 4,
        "kind": "transfer",
        "account": "a",
        "to_account": "b",
        "asset": None,
        "amount": 70,
        "quantity": None,
    },
]
SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "kind": pa.string(),
        "account": pa.string(),
        "to_account": pa.string(),
        "asset": pa.string(),
        "amount": pa.int64(),
        "quantity": pa.int64(),
    }
)
DDL = "ts long, kind string, account string, to_account string, asset string, amount long, quantity long"
