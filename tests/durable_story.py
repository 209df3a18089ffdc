"""A story for durability tests: epochs, calls and a load over small tables, and what the oracle says after each."""

from dataclasses import dataclass

import pyarrow as pa

import morphspark as ms
from morphspark.reference import open_reference
from morphspark.testing import assert_same, sorted_table

EPOCHS = 20


def build():
    """Rows that come and go, strings, decimals, deletions, aborts; late events are set aside."""
    app = ms.App("shop", order_by="ts", late="divert")
    columns = {"count": "int64", "note": "string"}
    stock = app.table("stock", key="string", columns=columns, default={"count": 0, "note": ""})
    orders = app.table("orders", key={"shop": "int64", "item": "string"}, columns={"price": "decimal(9, 2)"})

    @app.on(kind="deliver")
    def deliver(e):
        stock[e.item].count += e.amount
        stock[e.item].note = stock[e.item].note + "+"

    @app.on(kind="order")
    def order(e):
        ms.require(stock[e.item].count >= e.amount, "sold out")
        stock[e.item].count -= e.amount
        orders.insert((e.shop, e.item), price=e.amount)
        return {"left": stock[e.item].count}

    @app.on(kind="cancel")
    def cancel(e):
        with ms.when(orders[e.shop, e.item].exists()):
            stock[e.item].count += 1
        orders.delete((e.shop, e.item))

    @app.on(kind="clear")
    def clear(e):
        stock.delete(e.item)

    return app


KINDS = ["deliver", "order", "deliver", "cancel", "order", "order", "deliver", "clear", "nonsense"]


def events(epoch, rows=8):
    """Epoch `epoch`: out of order, some late, some aborted, some unmatched; none at all in epoch 5."""
    count = 0 if epoch == 5 else rows
    numbers = [epoch * rows + (n * 5) % rows for n in range(count)]
    return pa.table(
        {
            "ts": pa.array([n - 9 if n % 7 == 3 else n for n in numbers], pa.int64()),
            "kind": pa.array([KINDS[n % len(KINDS)] for n in numbers], pa.string()),
            "item": pa.array([f"item {n % 5}" for n in numbers], pa.string()),
            "shop": pa.array([n % 2 for n in numbers], pa.int64()),
            "amount": pa.array([n % 4 + 1 for n in numbers], pa.int64()),
            "extra": pa.array([{"n": n} for n in numbers], pa.struct([("n", pa.int32())])),
        }
    )


INITIAL = pa.table({"key": ["item 0", "item 9"], "count": [3, 9], "note": ["first", "last"]})


@dataclass(frozen=True)
class Step:
    """One commit of the story."""

    kind: str  # load, epoch, call
    epoch: int = -1

    def do(self, engine):
        if self.kind == "load":
            engine.load("stock", INITIAL)
        elif self.kind == "epoch":
            engine.process(events(self.epoch), epoch=self.epoch)
        else:
            assert engine.call("deliver", item=f"item {self.epoch % 5}", amount=100 + self.epoch).status == "committed"


def steps(epochs=EPOCHS):
    yield Step("load")
    for epoch in range(epochs):
        yield Step("epoch", epoch)
        if epoch % 3 == 1:
            yield Step("call", epoch)


@dataclass(frozen=True)
class Truth:
    """What the oracle says after some steps."""

    epoch: int  # the next one
    state: dict[str, pa.Table]
    watermark: object
    output: pa.Table | None  # of the last epoch
    late: pa.Table | None


def truths(app, epochs=EPOCHS):
    """[n]: after n steps."""
    output = None
    with open_reference(app) as engine:
        found = [Truth(0, state(engine), None, None, None)]
        for step in steps(epochs):
            if step.kind == "epoch":
                output = engine.process(events(step.epoch))
            else:
                step.do(engine)
            found.append(Truth(engine.epoch, state(engine), engine.watermark, output, engine.late))
    return found


def state(engine):
    return {spec.name: sorted_table(engine.table(spec.name).to_arrow(), spec) for spec in engine.program.tables}


def same_state(found, wanted, what):
    for name in wanted:
        assert_same(found[name], wanted[name], f"{what}: table {name}")


def check(engine, truth):
    """The engine is exactly where the oracle was."""
    assert engine.epoch == truth.epoch
    same_state(state(engine), truth.state, f"{truth.epoch} epochs")
    assert engine.watermark == truth.watermark
    if truth.epoch:
        assert_same(engine.process(None, epoch=truth.epoch - 1), truth.output, f"output of epoch {truth.epoch - 1}")
        assert_same(engine.late, truth.late, f"late events of epoch {truth.epoch - 1}")
