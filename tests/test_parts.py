"""Which transactions are cut into parts (f, c, tstream), and that a part relies on nothing that another may lack."""

from decimal import Decimal

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.strategy import NAMES
from morphspark.testing import Schedule, both_engines

IN_PARTS = [name for name in NAMES if "/f-" in name or "/c-" in name or name == "tstream"]
EVENTS = 50


def tables(app):
    return {
        "counts": app.table("counts", key="int64", columns={"n": "int64"}, default={"n": 1}),
        "sums": app.table("sums", key="int64", columns={"n": "decimal(18, 2)"}, default={"n": 0}),
        "names": app.table("names", key="int64", columns={"n": "string"}, default={"n": "-"}),
        "new_counts": app.table("new_counts", key="int64", columns={"n": "int64"}),
        "new_floats": app.table("new_floats", key="int64", columns={"n": "float64"}),
        "new_sums": app.table("new_sums", key="int64", columns={"n": "decimal(18, 4)"}),
        "new_names": app.table("new_names", key="int64", columns={"n": "string"}),
    }


# Of each: the table that gets a row, and what goes there.
INSERTS = {
    "an integer that was read": ("new_counts", lambda e, counts, **_: counts[e.a].n),
    "converted to float64": ("new_floats", lambda e, counts, **_: counts[e.a].n),
    "another scale": ("new_sums", lambda e, sums, **_: sums[e.a].n),
    "a sum of decimals": ("new_sums", lambda e, sums, **_: sums[e.a].n + e.p),
    "a string": ("new_names", lambda e, names, **_: names[e.a].n + "!"),
    "one of two": ("new_counts", lambda e, counts, **_: ms.where(e.g, counts[e.a].n, e.x)),
    "the first that is there": ("new_counts", lambda e, counts, **_: ms.coalesce(e.x, counts[e.a].n)),
}


@pytest.mark.parametrize("what", INSERTS)
def test_inserts_of_what_was_read_elsewhere_are_cut(what):
    app = ms.App("inserts", order_by="ts")
    known = tables(app)
    name, value = INSERTS[what]

    @app.on()
    def insert(e):
        known[name].insert(e.b, n=value(e, **known))

    numbers = range(EVENTS)
    events = pa.table(
        {
            "ts": numbers,
            "a": [n % 20 for n in numbers],
            "b": [n % 40 for n in numbers],
            "x": [None if n % 7 == 0 else n for n in numbers],
            "p": pa.array([Decimal(n) / 100 for n in numbers], pa.decimal128(9, 2)),
            "g": [None if n % 6 == 0 else n % 2 == 0 for n in numbers],
        }
    )
    with both_engines(app, schedules=[Schedule(strategy, 2) for strategy in IN_PARTS]) as engines:
        engines.process(events)
    with app.open(config=ms.Config(strategy="ns-explore/f-schedule/l-abort", threads=2)) as engine:
        engine.process(events)
        assert engine.metrics[-1]["batches"][0]["units"] == 2 * EVENTS


@pytest.mark.parametrize("strategy", IN_PARTS)
def test_long_strings_beside_a_column_without_a_type(strategy):
    """A transaction that always fails as long as the column has no type; its parts pass on strings all the same."""
    app = ms.App("untyped", order_by="ts")
    known = tables(app)
    counts, sums, names = known["counts"], known["sums"], known["names"]

    @app.on()
    def pay(e):
        counts[e.a].n = ms.where((sums[e.b].n > 1) & (sums[e.c].n > 1), e.fee, e.fee)
        note = names[e.a].n + e.text
        names[e.b].n = note + e.text
        names[e.c].n = note

    def events(ts, fee):
        text = ["x" * 200_000] * 4
        return pa.table(
            {"ts": [ts] * 4, "a": [1, 11, 21, 31], "b": [2, 12, 22, 1], "c": [3, 13, 23, 2], "fee": fee, "text": text}
        )

    with both_engines(app, schedules=[Schedule(strategy, 2)]) as engines:
        engines.process(events(1, pa.nulls(4)))
        engines.process(events(2, pa.array([1, None, 2, 3])))


def test_a_long_computation_is_not_repeated_for_many_rows():
    app = ms.App("long", order_by="ts")
    counts = tables(app)["counts"]
    keys = [f"k{n}" for n in range(40)]

    @app.on()
    def add(e):
        value = e.x
        for n in range(300):
            value = ms.where(value > n, value - 1, value + 1)
        for key in keys:
            counts[e[key]].n += value

    events = pa.table({"ts": [1, 2], "x": [3, 4], **{key: [n, n + 1] for n, key in enumerate(keys)}})
    with both_engines(app, schedules=[Schedule("ns-explore/f-schedule/e-abort", 2)]) as engines:
        engines.process(events)
    with app.open(config=ms.Config(strategy="ns-explore/f-schedule/e-abort", threads=2)) as engine:
        engine.process(events)
        assert engine.metrics[-1]["batches"][0]["units"] == 2
