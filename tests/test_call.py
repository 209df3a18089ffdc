"""engine.call: one transaction between two epochs."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.reference import open_reference

EVENTS = pa.table(
    {
        "ts": [1, 2],
        "kind": ["deposit", "deposit"],
        "account": ["a", "b"],
        "to_account": ["", ""],
        "asset": ["x", "y"],
        "amount": [100, 50],
        "quantity": [1, 1],
    }
)


@pytest.fixture(params=["native", "reference", "durable"])
def engine(request, ledger, tmp_path):
    opened = {
        "native": ledger.open,
        "reference": lambda: open_reference(ledger),
        "durable": lambda: ledger.open(tmp_path / "state"),
    }[request.param]()
    with opened as engine:
        engine.process(EVENTS)
        yield engine


def balances(engine):
    rows = engine.table("accounts").to_arrow()
    return dict(zip(rows["key"].to_pylist(), rows["balance"].to_pylist(), strict=True))


def test_a_call_commits_or_aborts(engine):
    done = engine.call("transfer", account="a", to_account="b", amount=30)
    assert (done.status, done.reason, done.columns) == ("committed", None, {"balance": 70})
    assert balances(engine) == {"a": 70, "b": 80}
    failed = engine.call("transfer", account="a", to_account="b", amount=300)
    assert (failed.status, failed.reason, failed.columns) == ("aborted", "require: insufficient funds", {})
    assert balances(engine) == {"a": 70, "b": 80}


def test_calls_are_no_epochs(engine):
    before = (engine.epoch, engine.watermark, len(engine.metrics))
    engine.call("transfer", account="a", to_account="b", amount=1)
    assert (engine.epoch, engine.watermark, len(engine.metrics)) == before
    result = engine.process(EVENTS)
    assert result["_epoch"].to_pylist() == [1, 1]
    assert balances(engine) == {"a": 199, "b": 101}
    assert engine.late.num_rows == 0


def test_the_function_itself(tmp_path):
    app = ms.App("bank", order_by="ts")
    accounts = app.table("accounts", key="string", columns={"balance": "int64"}, default={"balance": 0})

    @app.on(kind="transfer")
    def transfer(e):
        accounts[e.account].balance -= e.amount
        accounts[e.to_account].balance += e.amount

    with app.open(tmp_path) as engine:
        assert engine.call(transfer, account="a", to_account="b", amount=5).status == "committed"
    with app.open(tmp_path) as engine:
        assert sorted(engine.table(accounts).to_arrow()["balance"].to_pylist()) == [-5, 5]


@pytest.mark.parametrize("order", [["a", "b"], [Decimal("1.5"), Decimal("2.5")], [1, 2]])
@pytest.mark.parametrize("opened", [lambda app, path: app.open(path), lambda app, _: open_reference(app)])
def test_whatever_the_order_is(tmp_path, order, opened):
    app = ms.App("ordered", order_by="at")
    counts = app.table("counts", key="int64", columns={"n": "int64"}, default={"n": 0})

    @app.on()
    def count(e):
        counts[e.key].n += 1
        return {"sum": counts[e.key].over(rows=2).n.sum()}

    with opened(app, tmp_path) as engine:
        engine.process(pa.table({"at": order, "key": [1, 1]}))
        assert engine.call(count, key=1).columns == {"sum": 3}


def test_an_ad_hoc_function(engine, ledger):
    accounts = ms.app.Table(ledger.program.table("accounts"))

    def close_account(e):
        ms.require(accounts[e.who].exists(), "no such account")
        left = accounts[e.who].balance
        accounts.delete(e.who)
        return {"left": left, "checked": e.who == "a"}

    done = engine.call(close_account, who="a")
    assert done.columns == {"left": 100, "checked": True}
    assert balances(engine) == {"b": 50}
    assert engine.call(close_account, who="a").reason == "require: no such account"
    assert len(ledger.program.transactions) == 2  # it did not become one of the app's


def test_columns_have_the_types_of_the_stream(engine):
    with pytest.raises(ms.SchemaError, match=r"call\(transfer\): column 'amount': expected int64, got a str"):
        engine.call("transfer", account="a", to_account="b", amount="5")
    with pytest.raises(ms.SchemaError, match="column 'amount': expected int64, got a float"):
        engine.call("transfer", account="a", to_account="b", amount=0.5)
    assert engine.call("transfer", account=None, to_account="b", amount=5).reason == "key: null key of accounts"


def test_values_of_every_type():
    app = ms.App("types")
    seen = app.table(
        "seen",
        key="int64",
        columns={"b": "bool", "f": "float64", "s": "string", "t": "timestamp", "d": "decimal(9, 2)"},
    )

    @app.on()
    def keep(e):
        seen.insert(ms.sum(k for k in ms.each(e.keys)), b=e.b, f=e.f, s=e.s, t=e.t, d=e.d)
        return {"when": seen[6].t, "price": seen[6].d}

    when = datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)
    with app.open() as engine:
        done = engine.call(keep, keys=[1, 2, 3], b=True, f=1.5, s="ä", t=when, d=Decimal("2.50"))
        assert done.status == "committed", done.reason
        assert done.columns == {"when": when, "price": Decimal("2.50")}
        (row,) = engine.table(seen).to_arrow().to_pylist()
        assert row == {"key": 6, "b": True, "f": 1.5, "s": "ä", "t": when, "d": Decimal("2.50")}


@pytest.mark.parametrize(
    ("function", "columns", "message"),
    [
        ("transfr", {}, "has no transaction 'transfr' .it has deposit, transfer."),
        (7, {}, "expected a function or the name of a transaction, got a int"),
        ("transfer", {"account": "a"}, r"call\(transfer\): to_account, amount missing; transfer uses account, "),
        ("transfer", {"acount": "a"}, r"call\(transfer\) has no column 'acount'; did you mean 'account'\?"),
        ("transfer", {"account": "a", "to_account": "b", "amount": object()}, "expected int64, got a object"),
    ],
)
def test_mistakes(engine, function, columns, message):
    before = balances(engine)
    with pytest.raises(ms.SchemaError, match=message):
        engine.call(function, **columns)
    assert balances(engine) == before


def test_a_mistake_in_an_ad_hoc_function(engine):
    def choose(e):
        return {"x": 1 if e.x else 0}

    with pytest.raises(ms.TraceError, match="ms.where"):
        engine.call(choose, x=1)


def test_calls_survive_a_restart_in_their_order(ledger, tmp_path):
    with ledger.open(tmp_path) as engine:
        assert engine.call("deposit", account="a", asset="x", amount=7, quantity=1).status == "committed"  # before all
        engine.process(EVENTS)
        engine.call("transfer", account="a", to_account="c", amount=107)
        before = balances(engine)
    with ledger.open(tmp_path) as engine:
        assert balances(engine) == before == {"a": 0, "b": 50, "c": 107}
        past = engine.table("accounts").at(epoch=0).to_arrow()
        assert sorted(past["balance"].to_pylist()) == [50, 107]  # right after the epoch: with the first, not the second
