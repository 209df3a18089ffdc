"""The Streaming Ledger: its transactions and its two generators."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import morphspark as ms
from morphspark.apps import streaming_ledger as ledger

pytest_plugins = ["spark_fixtures"]


def totals(engine):
    return {
        table: pc.sum(engine.table(table).to_arrow()[column]).as_py()
        for table, column in (("accounts", "balance"), ("assets", "amount"))
    }


def check_events(events, accounts, transfer_ratio):
    """What holds for every table of events."""
    assert events.schema.names == list(ledger.EVENTS)
    assert events.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert pc.count_distinct(events["ts"]).as_py() == len(events)
    transfer = pc.equal(events["kind"], "transfer")
    assert transfer.to_numpy().mean() == pytest.approx(transfer_ratio, abs=0.05)
    assert events["to_account"].is_null().equals(pc.invert(transfer))
    assert events["to_asset"].is_null().equals(pc.invert(transfer))
    for column, prefix in (("account", "account-"), ("to_asset", "asset-")):
        keys = events[column].drop_null()
        numbers = pc.utf8_slice_codeunits(keys, len(prefix)).cast(pa.int64()).to_numpy()
        assert pc.all(pc.starts_with(keys, prefix)).as_py()
        assert pc.unique(pc.utf8_length(keys)).to_pylist() == [len(prefix) + 6]
        assert numbers.min() >= 0 and numbers.max() < accounts


def shares_of_hottest(events, column="account"):
    counts = np.sort(events[column].value_counts().field("counts").to_numpy())[::-1]
    return counts / counts.sum()


@pytest.mark.parametrize("theta", [0, 0.6, 1.2])
def test_numpy_events(theta):
    events = ledger.generate(20_000, accounts=1_000, theta=theta, seed=3)
    check_events(events, 1_000, 0.5)
    expected = np.diff(ledger.zipf_cumulative(1_000, theta), prepend=0)
    assert shares_of_hottest(events)[:10].sum() == pytest.approx(expected[:10].sum(), rel=0.2, abs=0.01)


def test_numpy_events_are_a_function_of_their_arguments():
    events = ledger.generate(100, seed=1)
    assert events.equals(ledger.generate(100, seed=1))
    assert not events.equals(ledger.generate(100, seed=2))
    later = ledger.generate(100, seed=1, first=100)
    assert pc.min(later["ts"]).as_py() > pc.max(events["ts"]).as_py()


@pytest.mark.parametrize("theta", [0, 0.6, 1, 1.2])
def test_spark_events(spark, theta):
    def generate(seed):
        rows = spark.range(20_000)
        return ledger.events_of(rows, "id", accounts=1_000, theta=theta, transfer_ratio=0.3, seed=seed).toArrow()

    events = generate(seed=3)
    check_events(events, 1_000, 0.3)
    expected = np.diff(ledger.zipf_cumulative(1_000, theta), prepend=0)
    assert shares_of_hottest(events)[:10].sum() == pytest.approx(expected[:10].sum(), rel=0.2, abs=0.01)
    assert events.equals(generate(seed=3)) and not events.equals(generate(seed=4))


def test_money_is_conserved_after_every_batch():
    with ledger.build().open() as engine:
        deposited = {"accounts": 0, "assets": 0}
        for first in range(0, 4_000, 1_000):
            result = engine.process(ledger.generate(1_000, accounts=50, first=first))
            rows = result.filter((pc.field("kind") == "deposit") & (pc.field("_status") == "committed"))
            deposited["accounts"] += pc.sum(rows["amount"]).as_py()
            deposited["assets"] += pc.sum(rows["quantity"]).as_py()
            assert totals(engine) == deposited


def test_with_initial_state_only_the_hopeless_abort():
    events = ledger.generate(5_000, accounts=100, abort_ratio=0.2, seed=5)
    with ledger.build().open() as engine:
        for table, rows in ledger.initial_state(100).items():
            engine.load(table, rows)
        result = engine.process(events)
    aborted = pc.equal(result["_status"], "aborted")
    assert aborted.equals(pc.equal(result["amount"], ledger.UNAFFORDABLE))
    assert pc.unique(result["_reason"].drop_null()).to_pylist() == ["require: insufficient funds"]
    assert aborted.to_numpy().mean() == pytest.approx(0.1, abs=0.02)  # of all; 0.2 of the transfers


def test_both_reasons_to_abort():
    events = pa.Table.from_pylist(
        [
            {"kind": "deposit", "account": "a", "asset": "x", "amount": 5, "quantity": 1},
            {"kind": "transfer", "account": "a", "asset": "x", "amount": 9, "quantity": 9},
            {"kind": "transfer", "account": "a", "asset": "x", "amount": 5, "quantity": 9},
            {"kind": "transfer", "account": "a", "asset": "x", "amount": 5, "quantity": 1},
        ]
    )
    for name in ("to_account", "to_asset"):
        events = events.append_column(name, pa.array([None, "b", "b", "b"]))
    events = events.append_column("ts", pa.array(range(4)).cast(pa.timestamp("us", "UTC")))
    with ledger.build().open() as engine:
        result = engine.process(events)
    reasons = [None, "require: insufficient funds", "require: insufficient assets", None]
    assert result["_reason"].to_pylist() == reasons
    assert result["balance"].to_pylist() == [None, None, None, 0]


@pytest.mark.parametrize(
    "knobs, message",
    [
        ({"accounts": 0}, "accounts=0"),
        ({"theta": -1}, "theta=-1"),
        ({"abort_ratio": 2}, "abort_ratio=2: expected a share from 0 to 1"),
    ],
)
def test_bad_knobs(knobs, message):
    with pytest.raises(ms.ConfigError, match=message):
        ledger.generate(10, **knobs)
