"""What is wrong with an app outside of its functions: names, types, defaults, conditions, and arguments."""

from types import MappingProxyType

import numpy as np
import pytest

import morphspark as ms


@pytest.mark.parametrize("name", ["", "_x", "1a", "a-b", "a" * 65, "é", None, 5])
def test_bad_names(name):
    app = ms.App("app")
    for declare in (
        lambda: ms.App(name),
        lambda: app.table(name, key="int64", columns={"v": "int64"}),
        lambda: app.table("t", key="int64", columns={name: "int64"}),
        lambda: app.table("t", key={name: "int64"}, columns={"v": "int64"}),
    ):
        with pytest.raises(ms.TraceError, match="expected a letter"):
            declare()


def test_the_longest_name():
    app = ms.App("a" * 64)
    app.table("T" * 64, key="int64", columns={"c_9" * 16: "int64"})


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda app: app.table("t", key="int64", columns={}), "has no columns"),
        (
            lambda app: app.table("t", key="int64", columns=["v"]),
            "table 't': columns=['v']: expected a dict of column names and types, such as {'balance': 'int64'}",
        ),
        (lambda app: app.table("t", key="int64", columns="v"), "columns='v': expected a dict"),
        (lambda app: app.table("t", key="int64", columns=None), "columns=None: expected a dict"),
        (
            lambda app: app.table("t", key="int64", columns={"v": "int64"}, default=[0]),
            "table 't': default=[0]: expected a dict of column names and values, such as {'balance': 0}",
        ),
        (lambda app: app.table("t", key="int64", columns={"v": "int64"}, default=0), "default=0: expected a dict"),
        (
            lambda app: app.table("t", key=["int64", "string"], columns={"v": "int64"}),
            "key=['int64', 'string']: the parts of a key have names; expected a dict, such as {'venue': 'string'",
        ),
        (lambda app: app.table("t", key={}, columns={"v": "int64"}), "the key has no parts"),
        (lambda app: app.table("t", key="float64", columns={"v": "int64"}), "int64 or string, not float64"),
        (lambda app: app.table("t", key="bool", columns={"v": "int64"}), "int64 or string, not bool"),
        (lambda app: app.table("t", key="int64", columns={"key": "int64"}), "may not be called 'key'"),
        (lambda app: app.table("t", key={"x": "int64"}, columns={"x": "int64"}), "may not be called 'x'"),
        (lambda app: app.table("t", key="int64", columns={"v": "list<int64>"}), "can't be list<int64>"),
        (lambda app: app.table("t", key="int64", columns={"v": "int64"}, default={}), "no value for v"),
        (
            lambda app: app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0, "w": 1}),
            "default of table 't' has no column 'w' (columns: v)",
        ),
        (lambda app: app.table("t", key="int64", columns={"v": "int64"}, default={1: 0}), "no column 1 (columns: v)"),
        (lambda app: app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0.5}), "can't store float64"),
        (lambda app: app.table("t", key="int64", columns={"v": "int64"}, default={"v": None}), "can't be null"),
        (
            lambda app: app.table("t", key="int64", columns={"v": "decimal(3, 2)"}, default={"v": 10}),
            "does not fit column 'v'",
        ),
        (lambda app: app.on(kind=None), "null matches nothing"),
        (lambda app: app.on(kind=["a", None]), "null matches nothing"),
        (lambda app: app.on(kind=[]), "can match nothing"),
        (lambda app: app.on(kind=object()), "is a object"),
    ],
)
def test_bad_declarations(declare, words):
    with pytest.raises(ms.TraceError) as caught:
        declare(ms.App("app"))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "kind", ["int", "integer", "decimal(19, 2)", "decimal(5, 6)", "decimal(0, 0)", "list<list<int64>>", "", None]
)
def test_unknown_types(kind):
    app = ms.App("app")
    with pytest.raises(ms.SchemaError, match="unknown type"):
        app.table("t", key="int64", columns={"v": kind})
    with pytest.raises(ms.SchemaError, match="unknown type"):
        ms.App("app", events={"x": kind})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"late": "drop"}, ["App(late='drop')", "expected one of admit, divert, fail"]),
        ({"order_by": ["a", "a"]}, ["App(order_by=['a', 'a'])", "a list of different ones"]),
        ({"order_by": [1]}, ["App(order_by=[1])", "expected a column name"]),
        ({"order_by": 5}, ["App(order_by=5)", "expected a column name or a list", "['ts', 'id']", "leave it out"]),
        ({"order_by": {"ts": "int64"}}, ["expected a column name or a list"]),
        ({"order_by": ""}, ["App(order_by='')", "expected a column name"]),
        ({"events": ["ts"]}, ["App(events=['ts'])", "expected a dict", "{'ts': 'int64', 'kind'", "leave it out"]),
        ({"events": "ts"}, ["App(events='ts')", "expected a dict"]),
        ({"events": {1: "int64"}}, ["App(events=…)", "column 1", "expected a name"]),
        ({"seed": "s"}, ["App(seed='s')", "expected a whole number", "42"]),
        ({"seed": 1.5}, ["App(seed=1.5)", "expected a whole number"]),
        ({"seed": True}, ["App(seed=True)", "expected a whole number"]),
        ({"seed": None}, ["App(seed=None)", "expected a whole number"]),
    ],
)
def test_app_arguments(arguments, words):
    with pytest.raises(ms.ConfigError) as caught:
        ms.App("app", **arguments)
    for word in words:
        assert word in str(caught.value)


def test_other_ways_to_write_good_arguments():
    app = ms.App(
        "app", order_by=("ts", "id"), events=MappingProxyType({"ts": "int64", "id": "string"}), seed=np.int8(7)
    )
    assert app.order_by == ("ts", "id")
    assert list(app.events) == ["ts", "id"]
    assert app.program.seed == 7
    assert type(app.seed) is int


def test_order_columns_against_declared_events():
    with pytest.raises(ms.TraceError, match="no column 'tsx'; did you mean 'ts'"):
        ms.App("app", order_by="tsx", events={"ts": "int64"})
    with pytest.raises(ms.SchemaError, match="the column is float64; expected int64, timestamp, string, decimal"):
        ms.App("app", order_by="ts", events={"ts": "float64"})


def test_on_against_declared_events(declared):
    with pytest.raises(ms.TraceError, match=r"on\(\): the event has no column 'kind'"):
        declared.app.on(kind="a")
    with pytest.raises(ms.SchemaError, match=r"on\(i='a'\): the column is int64, the value string"):
        declared.app.on(i="a")
    with pytest.raises(ms.SchemaError, match="the column is list<int64>"):
        declared.app.on(li=1)


def test_declared_twice(declared):
    with pytest.raises(ms.TraceError, match="table 't' is declared twice"):
        declared.app.table("t", key="int64", columns={"v": "int64"})

    @declared.app.on()
    def once(e):
        pass

    with pytest.raises(ms.TraceError, match="transaction 'once' is defined twice"):
        declared.app.on()(once)
