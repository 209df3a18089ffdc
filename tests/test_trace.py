"""What a transaction function may not do: every mistake is an error when the app is built, and says what to write.

Loops, reductions and when blocks are in test_trace_control.py; mistakes outside of functions in test_declarations.py.
"""

import datetime
import enum
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from declared import Declared, refused, returning

import morphspark as ms

# ---------------------------------------------------------------------------------------- Python on traced values


def _if(e):
    if e.i > 0:
        pass


def _and(e):
    ms.require((e.i > 0) and (e.j > 0))


def _or(e):
    ms.require((e.i > 0) or (e.j > 0))


def _not(e):
    ms.require(not e.b)


def _in(e):
    ms.require(e.i in [1, 2])


def _chain(e):
    ms.require(0 < e.i < 10)


def _while(e):
    while e.b:
        pass


def _ternary(e):
    return {"x": 1 if e.b else 2}


def _builtin_min(e):
    return {"x": min(e.i, e.j)}


def _builtin_max(e):
    return {"x": max(e.i, e.j)}


def _builtin_any(e):
    return {"x": any([e.b, e.b])}


def _sorted(e):
    return {"x": sorted([e.i, e.j])[0]}


@pytest.mark.parametrize(
    "function",
    [_if, _and, _or, _not, _in, _chain, _while, _ternary, _builtin_min, _builtin_max, _builtin_any, _sorted],
    ids=lambda function: function.__name__[1:],
)
def test_no_truth_value(declared, function):
    function.__name__ = function.__name__.lstrip("_")
    message = refused(
        declared, function, "no truth value", "ms.where(c, a, b)", "with ms.when(c):", "`&`", "ms.require"
    )
    assert message.startswith(f"{function.__name__} (test_trace.py:")


def test_builtin_sum_over_each_carries(declared):
    def builtin_sum(e):
        return {"x": sum(k for k in ms.each(e.li))}

    refused(declared, builtin_sum, "carried from one iteration", "ms.sum")


@pytest.mark.parametrize(
    ("convert", "words"),
    [
        (int, "Python int"),
        (float, "Python float"),
        (str, "text"),
        (len, "no length"),
        (list, "can't be iterated"),
        (lambda value: f"{value}", "f-string"),
        (format, "text"),
        (lambda value: range(value), "Python int"),
        (lambda value: [1, 2, 3][value], "Python int"),
        (lambda value: value**2, "multiply"),
        (lambda value: 2**value, "multiply"),
        (round, "round() is not there"),
        (bool, "no truth value"),
        (print, "text"),
    ],
)
def test_no_conversion(declared, convert, words):
    def transaction(e):
        convert(e.i)

    refused(declared, transaction, words)


def test_traced_values_have_a_repr_for_debuggers(declared):
    seen = []

    @declared.app.on()
    def transaction(e):
        seen.append(repr(e.i))

    assert seen == ["<traced int64>"]


def test_traced_values_are_no_dict_keys(declared):
    def transaction(e):
        return {"x": {1: 2}[e.i]}

    refused(declared, transaction, "can't be looked up in a dict", "Keep the entries in a table", "ms.where")


def test_traced_values_are_in_no_set(declared):
    refused(declared, returning(lambda e: e.i in {1, 2}), "can't be looked up in a dict or a set")
    refused(declared, returning(lambda e: len({declared.t[0]})), "can't be looked up in a dict or a set")


def test_operators_on_a_row(declared):
    def increase(e):
        declared.t[e.i] += 1

    words = "a row of 't' is not a value; name a column of it: t[…].v"
    refused(declared, increase, words)
    for wrong in (
        lambda e: declared.t[0] + 1,
        lambda e: 1 - declared.t[0],
        lambda e: declared.t[0] == declared.t[1],
        lambda e: declared.t[0] != 1,
        lambda e: -declared.t[0],
        lambda e: e.i + declared.t[0],
    ):
        refused(declared, returning(wrong), words)


@pytest.mark.parametrize("name", ["exists", "is_null"])
def test_methods_without_parentheses(declared, name):
    def method(e):
        return declared.t[e.i].exists if name == "exists" else e.i.is_null

    for wrong in (
        lambda e: 1 if method(e) else 2,
        lambda e: method(e),
        lambda e: ms.require(method(e)),
        lambda e: ~method(e),
        lambda e: e.b & method(e),
        lambda e: method(e) == True,  # noqa: E712
        lambda e: ms.where(method(e), 1, 2),
        lambda e: f"{method(e)}",
    ):
        refused(declared, returning(wrong), f"write {name}(), with parentheses")


def test_a_key_by_name(declared):
    t, pairs = declared.t, declared.pairs

    @declared.app.on()
    def transaction(e):
        t.insert(e.i, v=1)
        t.insert(key=e.i, v=1)
        pairs.insert((e.i, e.s), d=2)
        pairs.insert(x=e.i, y=e.s, d=2)
        pairs.insert(key=(e.i, e.s), d=2)

    steps = [step for step in declared.app.program.transactions[0].steps if step.op in ("row", "insert")]
    rows = [step.args for step in steps if step.op == "row"]
    assert rows[0] == rows[1] and rows[2] == rows[3] == rows[4]
    inserts = [step.args[1:] for step in steps if step.op == "insert"]
    assert inserts[0] == inserts[1] and inserts[2] == inserts[3] == inserts[4]


def test_an_insert_without_a_key(declared):
    def alone(e):
        declared.t.insert(v=1)

    def part(e):
        declared.pairs.insert(x=1, d=2)

    def several(e):
        declared.pairs.insert(1, "a", d=2)

    refused(declared, alone, "t.insert has no key (key); write t.insert(key, column=value, …)")
    refused(declared, part, "pairs.insert has no key (y)")
    refused(declared, several, "takes the key, then columns by name")


# -------------------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (lambda e: e.i + e.s, "int64 + string"),
        (lambda e: e.s - e.s, "string - string"),
        (lambda e: e.s * 2, "string * int64"),
        (lambda e: e.b + 1, "bool + int64"),
        (lambda e: e.t + e.t, "timestamp + timestamp"),
        (lambda e: e.t * 2, "timestamp * int64"),
        (lambda e: e.t + 1.5, "timestamp + float64"),
        (lambda e: 1 - e.t, "int64 - timestamp"),
        (lambda e: -e.s, "takes a number, not string"),
        (lambda e: abs(e.t), "takes a number, not timestamp"),
        (lambda e: ~e.i, "(bool), not int64"),
        (lambda e: e.b & e.i, "(bool), not int64"),
        (lambda e: e.i | 1, "(bool), not int64"),
        (lambda e: e.i == e.s, "int64 and string"),
        (lambda e: e.t < 5, "timestamp and int64"),
        (lambda e: e.b < e.b, "no order for <"),
        (lambda e: e.li == e.li, "no order for =="),
        (lambda e: ms.where(e.i, 1, 2), "(bool), not int64"),
        (lambda e: ms.where(e.b, 1, "a"), "int64 and string"),
        (lambda e: ms.where(e.b, e.li, e.lj), "are lists"),
        (lambda e: ms.coalesce(e.i, "a"), "int64 and string"),
        (lambda e: ms.coalesce(e.li, e.lj), "are lists"),
        (lambda e: ms.require(e.i), "(bool), not int64"),
        (lambda e: ms.require(e.b, e.s), "plain string"),
        (lambda e: ms.require(e.b, "\ud800"), "not valid Unicode"),
        (lambda e: ms.when(e.s).__enter__(), "(bool), not string"),
        (lambda e: e.i + 2**63, "outside int64"),
        (lambda e: e.i + object(), "is a object"),
        (lambda e: e.i + [1], "is a list"),
        (lambda e: e.s + "\ud800", "not valid Unicode"),
        (lambda e: e.d + Decimal("NaN"), "not a finite decimal"),
        (lambda e: e.d + Decimal(10) ** 38, "more than 38 digits"),
        (lambda e: e.d * e.d * e.d * Decimal("1e-33"), "39 digits behind the point"),
        (lambda e: e + 1, "unsupported operand"),
    ],
)
def test_wrong_types(declared, expression, words):
    refused(declared, returning(expression), words, error=TypeError)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda t, e: setattr(t[0], "v", e.f), "t.v is int64 and can't store float64; use //"),
        (lambda t, e: setattr(t[0], "v", e.i / 2), "t.v is int64 and can't store float64"),
        (lambda t, e: setattr(t[0], "v", e.d), "t.v is int64 and can't store decimal(9, 2)"),
        (lambda t, e: setattr(t[0], "v", e.s), "can't store string"),
        (lambda t, e: setattr(t[0], "s", 5), "can't store int64"),
        (lambda t, e: setattr(t[0], "v", True), "can't store bool"),
        (lambda t, e: setattr(t[0], "v", t[1]), "is not a value; name a column"),
        (lambda t, e: setattr(t[0], "v", e), "an event or a list is not a value"),
        (lambda t, e: setattr(t[0], "v", t), "is a Table"),
        (lambda t, e: setattr(t[0], "balance", 1), "no column 'balance'"),
        (lambda t, e: t.insert(1, v=e.f), "can't store float64"),
        (lambda t, e: t.insert(1, w=1), "no column 'w'"),
        (lambda t, e: t.__setitem__(0, 1), "a whole row can't be assigned"),
        (lambda t, e: list(t), "can't be iterated"),
        (lambda t, e: list(t[0]), "can't be iterated"),
        (lambda t, e: setattr(e, "i", 1), "an event can't be changed"),
        (lambda t, e: e.__setitem__("i", 1), "an event can't be changed"),
    ],
)
def test_wrong_writes(declared, write, words):
    def transaction(e):
        write(declared.t, e)

    refused(declared, transaction, words)


def test_float_into_decimal(declared):
    def transaction(e):
        declared.pairs[1, "a"].d = 0.5

    refused(declared, transaction, "pairs.d is decimal(6, 2) and can't store float64", "decimal.Decimal")


def test_insert_without_default_needs_every_column(declared):
    def transaction(e):
        declared.pairs.insert((1, "a"))

    refused(declared, transaction, "no value for column 'd'")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (lambda d, e: d.t[e.s], "the key of 't' takes int64, not string"),
        (lambda d, e: d.t[e.f], "takes int64, not float64"),
        (lambda d, e: d.t[1, 2], "has 1 part(s) (key: int64), not 2"),
        (lambda d, e: d.pairs[e.i], "has 2 part(s) (x: int64, y: string), not 1"),
        (lambda d, e: d.pairs[e.i, e.i], "part 'y' of the key of 'pairs' takes string, not int64"),
        (lambda d, e: d.pairs[e.i, "a", "b"], "not 3"),
        (lambda d, e: d.t.delete(e.s), "takes int64, not string"),
        (lambda d, e: d.t.insert(e.s, v=1), "takes int64, not string"),
        (lambda d, e: d.t[d.t[0]], "is not a value"),
        (lambda d, e: d.t["0"], "takes int64, not string"),
        (lambda d, e: d.t[2**70], "outside int64"),
    ],
)
def test_wrong_keys(declared, key, words):
    def transaction(e):
        key(declared, e)

    refused(declared, transaction, words)


def test_unknown_columns_with_a_suggestion(declared):
    def event(e):
        return {"x": e.ii}

    def item(e):
        return {"x": e["jj"]}

    def number(e):
        return {"x": e[0]}

    def row(e):
        return {"x": declared.t[0].vv}

    refused(declared, event, "the event has no column 'ii'; did you mean 'i'?")
    refused(declared, item, "no column 'jj'")
    refused(declared, number, "columns have names")
    refused(declared, row, "table 't' has no column 'vv'; did you mean 'v'?")


def test_what_a_table_does_is_looked_for_at_a_row(declared):
    def delete(e):
        declared.t[e.i].delete()

    def insert(e):
        declared.pairs[e.i, e.s].insert(d=1)

    refused(declared, delete, "table 't' has no column 'delete' (columns: v, f, s)", "write t.delete(key)")
    refused(declared, insert, "table 'pairs' has no column 'insert'", "write pairs.insert(key, column=value, …)")


def test_types_come_with_the_first_batch(opened):
    """Without events= the same mistakes are found when the first batch brings the types; nothing runs."""
    app = ms.App("later")
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def transaction(e):
        t[e.k].v = e.x

    engines = opened(app)
    with pytest.raises(
        ms.SchemaError, match=r"transaction \(test_trace.py:\d+\): t.v is int64 and can't store float64"
    ):
        engines.process(pa.table({"k": [1], "x": [1.5]}))
    with pytest.raises(ms.SchemaError, match=r"the key of 't' .* takes int64, not string"):
        engines.process(pa.table({"k": ["1"], "x": [1]}))
    assert engines.process(pa.table({"k": [1], "x": [1]}))["_status"].to_pylist() == ["committed"]


# ------------------------------------------------------------------------------------------ whose value, and where


@pytest.mark.parametrize(
    "word",
    [
        lambda: ms.require(True),
        lambda: ms.where(True, 1, 2),
        lambda: ms.each([1]),
        lambda: ms.when(True),
        lambda: ms.coalesce(1),
        lambda: ms.min(1, 2),
        lambda: ms.sum([1]),
        lambda: ms.abs(1),
    ],
)
def test_words_outside_of_a_transaction(word):
    with pytest.raises(ms.TraceError, match=r"works only inside a function decorated with @app.on"):
        word()


def test_tables_outside_of_a_transaction(declared):
    for use in (lambda t: t[1], lambda t: t.insert(1, v=1), lambda t: t.delete(1)):
        with pytest.raises(ms.TraceError, match="works only inside"):
            use(declared.t)


def test_values_of_another_function(declared):
    kept = {}

    @declared.app.on()
    def first(e):
        kept.update(value=e.i, row=declared.t[0])

    words = "belongs to another transaction function"
    uses = [
        lambda e: kept["value"] + 1,
        lambda e: e.i + kept["value"],
        lambda e: kept["row"].v,
        lambda e: setattr(kept["row"], "v", 5),
        lambda e: kept["row"].exists(),
        lambda e: ms.where(e.b, kept["value"], 1),
        lambda e: ms.each(kept["value"]).__next__(),
    ]
    for use in uses:

        def second(e, use=use):
            use(e)

        with pytest.raises(ms.TraceError, match=words):
            declared.app.on()(second)
    with pytest.raises(ms.TraceError, match=words):
        kept["row"].v = 5
    with pytest.raises(ms.TraceError, match=words):
        kept["value"] + 1


def test_table_of_another_app(declared):
    other = Declared()

    def transaction(e):
        other.t[1].v = 2

    refused(declared, transaction, "table 't' belongs to another app")


# ---------------------------------------------------------------------------------------- functions and results


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda e, d: e.i, "a dict of output columns, not a traced value"),
        (lambda e, d: 5, "a dict of output columns, not a int"),
        (lambda e, d: [("x", e.i)], "not a list"),
        (lambda e, d: {"i": e.i}, "has the name of an event column"),
        (lambda e, d: {"_status": e.i}, "expected a letter"),
        (lambda e, d: {"a b": e.i}, "expected a letter"),
        (lambda e, d: {5: e.i}, "expected a letter"),
        (lambda e, d: {"x": e.li}, "is a list; return a reduction"),
        (lambda e, d: {"x": d.t[0]}, "is not a value"),
        (lambda e, d: {"x": e}, "is not a value"),
        (lambda e, d: {"x": {"y": 1}}, "is a dict"),
    ],
)
def test_bad_returns(declared, result, words):
    def transaction(e):
        return result(e, declared)

    refused(declared, transaction, words)


def test_functions_that_are_none(declared):
    def generator(e):
        yield e.i

    async def coroutine(e):
        return {"x": e.i}

    def no_argument():
        pass

    refused(declared, generator, "without yield or async")
    refused(declared, coroutine, "without yield or async")
    refused(declared, lambda e: None, "transaction '<lambda>'")
    refused(declared, no_argument, "positional argument", error=TypeError)


def test_an_error_leaves_the_app_usable(declared):
    def broken(e):
        raise KeyError("mine")

    refused(declared, broken, "mine", error=KeyError)

    @declared.app.on()
    def fine(e):
        ms.require(e.b)

    assert [one.name for one in declared.app.program.transactions] == ["fine"]


# --------------------------------------------------------------------------------------------------------- allowed


def test_constants_of_other_kinds(declared):
    class Colour(enum.StrEnum):
        RED = "red"

    @declared.app.on(s=Colour.RED)
    def transaction(e):
        return {
            "a": e.i + np.int32(5), "h": e.f * np.float32(0.5), "c": e.s + Colour.RED, "k": e.b & np.bool_(True),
            "l": ms.max(e.t, datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))),
            "m": e.s + np.str_("x"), "n": ms.where(True, None, e.i), "o": e.d + Decimal("1E+3"), "p": +e.i,
        }  # fmt: skip

    program = declared.app.program
    assert program == ms.Program.from_json(program.to_json())
    assert 's == "red"' in str(program)
    assert "2019-12-31 22:00:00" in str(program)
    assert "1000" in str(program)


def test_names_that_are_no_attributes():
    app = ms.App("names")
    t = app.table("t", key="int64", columns={"over": "int64", "exists": "bool"}, default={"over": 0, "exists": False})

    @app.on(**{"from": "a"})
    def transaction(e):
        t[e["from id"]]["over"] += e["class"]
        t[0].exists = t[0]["exists"] | t[0].exists()

    assert app.program.event_columns == ["from", "from id", "class"]
    assert "e['from id']" in str(app.program)


def test_helpers_closures_and_unrolled_loops(declared):
    def bump(row, amount):
        row.v += amount

    @declared.app.on()
    def transaction(e):
        for n in range(3):
            bump(declared.t[n], e.i * n)
        return {f"x{n}": e.i + n for n in range(2)}

    transaction_ = declared.app.program.transactions[0]
    assert transaction_.write_set == ["t[0].v", "t[1].v", "t[2].v"]
    assert [name for name, _ in transaction_.returns] == ["x0", "x1"]
