"""A traced program: how it prints, its JSON, its hash, and that size does not matter."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.program import Const, Program
from morphspark.types import FLOAT64

LEDGER = """\
program ledger  order by ts
table accounts[key: string] {balance: int64}  default 0
table assets[key: string] {amount: int64}  default 0

transaction deposit  on kind == "deposit"
  reads  accounts[e.account].balance, assets[e.asset].amount
  writes accounts[e.account].balance, assets[e.asset].amount
     0  row      accounts[e.account]
     1  read     accounts[e.account].balance
     2  add      (accounts[e.account].balance + e.amount)
     3  accounts[e.account].balance = (accounts[e.account].balance + e.amount)
     4  row      assets[e.asset]
     5  read     assets[e.asset].amount
     6  add      (assets[e.asset].amount + e.quantity)
     7  assets[e.asset].amount = (assets[e.asset].amount + e.quantity)

transaction transfer  on kind == "transfer"
  reads  accounts[e.account].balance, accounts[e.to_account].balance
  writes accounts[e.account].balance, accounts[e.to_account].balance
     0  row      accounts[e.account]
     1  row      accounts[e.to_account]
     2  read     accounts[e.account].balance
     3  ge       (accounts[e.account].balance >= e.amount)
     4  require (accounts[e.account].balance >= e.amount)  "insufficient funds"
     5  read     accounts[e.account].balance
     6  sub      (accounts[e.account].balance - e.amount)
     7  accounts[e.account].balance = (accounts[e.account].balance - e.amount)
     8  read     accounts[e.to_account].balance
     9  add      (accounts[e.to_account].balance + e.amount)
    10  accounts[e.to_account].balance = (accounts[e.to_account].balance + e.amount)
    11  read     accounts[e.account].balance
  return balance = accounts[e.account].balance"""


def test_the_ledger_prints(ledger):
    assert str(ledger.program) == LEDGER


def test_blocks_and_loops_print():
    app = ms.App("p")
    t = app.table("t", key={"x": "int64", "y": "string"}, columns={"v": "int64"})

    @app.on(kind=["a", "b"], n=1)
    def run(e):
        with ms.when(e.go):
            for x, y in ms.each(e.xs, e.ys):
                t.insert((x, y), v=ms.where(e.b, x // e.z, -1))
        t.delete((1, "a"))

    text = str(app.program)
    assert 'on kind in ("a", "b") and n == 1' in text
    assert "table t[x: int64, y: string] {v: int64}\n" in text
    assert "each e.xs, e.ys:   if e.go" in text
    assert "insert t[each(e.xs), each(e.ys)] v=where(e.b, (each(e.xs) // e.z), -1)   if e.go" in text
    assert "(each(e.xs) // e.z)   if e.go & e.b" in text
    assert 'delete t[1, "a"]' in text
    assert app.program.transactions[0].write_set == ["t[each(e.xs), each(e.ys)].v", 't[1, "a"]']


def test_constants_keep_their_kind():
    assert Const(FLOAT64, float("nan")) == Const(FLOAT64, float("nan"))
    assert Const(FLOAT64, 0.0) != Const(FLOAT64, -0.0)
    assert len({Const(FLOAT64, 1.0), Const(FLOAT64, 1.0)}) == 1


def everything():
    """An app with every kind of step and constant."""
    from datetime import datetime
    from decimal import Decimal

    app = ms.App("everything", order_by=["ts", "seq"], seed=7, late="divert")
    t = app.table(
        "t",
        key={"a": "int64", "b": "string"},
        columns={"i": "int64", "f": "float64", "s": "string", "z": "bool", "w": "timestamp", "d": "decimal(9, 2)"},
        default={"i": -1, "f": float("-inf"), "s": "é\n", "z": True, "w": datetime(2020, 1, 1), "d": Decimal("-0.05")},
    )
    u = app.table("u", key="int64", columns={"v": "float64"})  # fmt: skip

    @app.on(kind=["x", "y"], flag=True, amount=Decimal("1.50"))
    def first(e):
        row = t[e.k, "b"]
        with ms.when(row.exists() & ~e.flag):
            row.i = ms.min(row.i, 3) % 7 // 2 * 2 - 1
            row.f = ms.where(e.x.is_null(), float("nan"), abs(-e.x) / 2)
            with ms.when(row.z ^ True):
                u.insert(e.k, v=ms.coalesce(e.x, 0.5))
        for k, x in ms.each(e.ks, e.xs):
            u[k].v += x
            u.delete(k + 1)
        ms.require(ms.any(k > 5 for k in ms.each(e.ks)) | ms.all(e.flags), "neither")
        return {"total": ms.sum(e.xs), "avg": ms.mean(e.xs), "n": ms.count(e.ks), "w": row.w + 5, "d": row.d * 2}

    @app.on()
    def second(e):
        t[e.k, e.kind].s = t[e.k, e.kind].s + "!"

    return app


def test_json_round_trip():
    program = everything().program
    again = Program.from_json(program.to_json())
    assert again == program
    assert again.hash == program.hash
    assert str(again) == str(program)
    with pytest.raises(ValueError, match="program format 99 is not known"):
        Program.from_json(program.to_json().replace('"format":1', '"format":99'))


def test_what_changes_the_hash(ledger):
    def app(name="a", seed=0, order=None, default=0, message="m", **on):
        made = ms.App(name, order_by=order, seed=seed)
        t = made.table("t", key="int64", columns={"v": "int64"}, default={"v": default})

        @made.on(**on)
        def run(e):
            ms.require(t[1].v > 0, message)

        return made.program.hash

    variants = [app(), app("b"), app(seed=1), app(order="ts"), app(default=1), app(message="n"), app(x=1), app(x=1.0)]
    variants += [app(x=True), app(x="1"), app(x=[1, 2])]
    assert len(set(variants)) == len(variants)
    assert app() == app()


def test_the_hash_is_the_same_in_every_process():
    code = "import test_program; print(test_program.everything().program.hash)"
    root = Path(__file__).parent.parent
    hashes = {everything().program.hash}
    for seed in ("0", "1", "12345"):
        path = os.pathsep.join([str(root), str(root / "tests")])
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
        hashes.add(done.stdout.strip())
    assert len(hashes) == 1


def test_an_app_can_be_pickled(opened):
    app = everything()
    again = pickle.loads(pickle.dumps(app))
    assert again.program == app.program
    assert (again.name, again.order_by, again.late, again.seed) == (app.name, app.order_by, app.late, app.seed)
    declared = ms.App("d", events={"ts": "int64", "x": "decimal(5, 2)", "l": "list<string>"}, order_by="ts")
    assert pickle.loads(pickle.dumps(declared)).events == declared.events


def test_a_pickled_app_runs(counter, opened):
    batch = pa.table({"ts": [1, 2], "key": [5, 5], "amount": [3, 4]})
    again = opened(pickle.loads(pickle.dumps(counter))).process(batch)
    assert again.equals(opened(counter).process(batch))


# --------------------------------------------------------------------------------------------------------- size


def test_twenty_thousand_nested_additions(opened):
    app = ms.App("deep")
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def run(e):
        total = e.x
        for n in range(20_000):
            total = total + n % 3
        t[0].v = total
        return {"total": total}

    program = app.program
    assert len(program.transactions[0].steps) == 20_002
    assert len(str(program).splitlines()) > 20_000
    assert Program.from_json(program.to_json()).hash == program.hash
    result = opened(app, threads=(1, 2)).process(pa.table({"x": [1, 2**63 - 1]}))
    assert result["total"].to_pylist() == [19_999 + 1, None]
    assert result["_reason"].to_pylist() == [None, "overflow: (e.x + 0) + 1"]


def test_deep_wheres_and_blocks(opened):
    app = ms.App("deep")
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def run(e):
        value = e.x // e.y
        for n in range(2_000):
            value = ms.where(e.b, value, n)
        blocks = [ms.when(e.x > n) for n in range(100)]
        for block in blocks:
            block.__enter__()
            t[0].v += 1
        for block in reversed(blocks):
            block.__exit__(None, None, None)
        return {"value": value}

    started = time.monotonic()
    events = pa.table({"x": [6, 7, 8], "y": [3, 0, 0], "b": [True, False, True]})
    result = opened(app).process(events)
    assert result["value"].to_pylist() == [2, 1999, None]
    assert result["_reason"].to_pylist() == [None, None, "division: e.x // e.y"]
    assert time.monotonic() - started < 20


def test_five_hundred_columns(opened):
    names = [f"c{n}" for n in range(500)]
    app = ms.App("wide", order_by="c0")
    t = app.table("t", key="int64", columns=dict.fromkeys(names, "int64"), default=dict.fromkeys(names, 0))

    @app.on()
    def run(e):
        row = t[e.c0]
        for name in names:
            row[name] += e[name]
        return {f"r{name}": row[name] for name in names}

    engines = opened(app)
    batch = pa.table({name: [n, n + 1, n] for n, name in enumerate(names)})
    result = engines.process(batch)
    assert result.num_columns == 1004
    assert result["rc499"].to_pylist() == [499, 998, 500]
    assert engines.table("t").num_columns == 501


def test_many_transactions_and_tables(opened):
    app = ms.App("many")
    tables = [app.table(f"t{n}", key="int64", columns={"v": "int64"}, default={"v": n}) for n in range(60)]
    for n, table in enumerate(tables):

        def run(e, table=table):
            table[e.k].v += 1
            return {"v": table[e.k].v}

        run.__name__ = f"run{n}"
        app.on(which=n)(run)
    result = opened(app).process(pa.table({"which": [59, 0, 30, 60], "k": [1, 1, 1, 1]}))
    assert result["v"].to_pylist() == [60, 1, 31, None]
