"""The rules of every operation, one by one; native code is held to them by the property tests."""

import math
import struct
from decimal import Decimal

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark import infer, values
from morphspark.types import (
    BOOL,
    FLOAT64,
    INT64,
    NULL,
    STRING,
    TIMESTAMP,
    UNKNOWN,
    between,
    decimal,
    from_arrow,
    list_of,
    parse,
    to_arrow,
)
from morphspark.values import Failure

BIG = 10**38 - 1
INF, NAN = math.inf, math.nan


def compute(op, left, left_type, right, right_type):
    result = infer.result_type(op, [left_type, right_type])
    return values.arithmetic(op, left, left_type, right, right_type, result)


@pytest.mark.parametrize(
    ("op", "left", "right", "result"),
    [
        ("add", 2**63 - 1, 0, 2**63 - 1),
        ("add", 2**63 - 1, 1, "overflow"),
        ("sub", -(2**63), 1, "overflow"),
        ("mul", 2**32, 2**31, "overflow"),
        ("mul", -(2**32), 2**31, -(2**63)),
        ("floordiv", -(2**63), -1, "overflow"),
        ("mod", -(2**63), -1, 0),
        ("floordiv", 7, -2, -4),
        ("mod", 7, -2, -1),
        ("mod", -7, 2, 1),
        ("floordiv", 1, 0, "division"),
        ("mod", 0, 0, "division"),
        ("div", 1, 0, "division"),
        ("div", 1, 3, 1 / 3),
        ("div", 2**63 - 1, 1, 2.0**63),
    ],
)
def test_int64(op, left, right, result):
    assert outcome(lambda: compute(op, left, INT64, right, INT64)) == result


def outcome(call):
    try:
        return call()
    except Failure as failure:
        return failure.kind


@pytest.mark.parametrize(
    ("op", "left", "right", "result"),
    [
        ("mul", 1e308, 10.0, INF),
        ("add", INF, -INF, NAN),
        ("floordiv", -7.5, 2.0, -4.0),
        ("mod", -7.5, 2.0, 0.5),
        ("mod", 5.0, -INF, -INF),
        ("floordiv", 1e308, 5e-324, INF),
        ("mod", -0.0, 3.0, 0.0),
        ("mod", 0.0, -3.0, -0.0),
        ("div", 1.0, -0.0, "division"),
        ("div", NAN, 0.0, "division"),
        ("mod", INF, 3.0, NAN),
        ("floordiv", INF, 3.0, NAN),
        ("floordiv", -1.0, INF, -1.0),
    ],
)
def test_float64(op, left, right, result):
    assert repr(outcome(lambda: compute(op, left, FLOAT64, right, FLOAT64))) == repr(result)


@pytest.mark.parametrize(
    ("op", "left", "scales", "right", "result"),
    [
        ("add", 150, (2, 3), 1, 1501),
        ("sub", 150, (2, 0), 2, -50),
        ("mul", 15, (1, 2), 205, 3075),
        ("div", 200, (2, 2), 300, 66666667),
        ("div", -200, (2, 2), 300, -66666667),
        ("div", 1, (0, 2), 800, 12500000),
        ("floordiv", -700, (2, 2), 200, -4),
        ("mod", -700, (2, 2), 200, 100),
        ("mod", 700, (2, 0), -2, -100),
        ("mul", BIG, (0, 0), 1, BIG),
        ("mul", BIG, (0, 0), 2, "overflow"),
        ("add", BIG, (0, 0), 1, "overflow"),
        ("add", BIG, (0, 1), 1, "overflow"),
        ("div", BIG, (0, 0), 1, "overflow"),
        ("div", 1, (2, 2), 0, "division"),
    ],
)
def test_decimal(op, left, scales, right, result):
    kinds = between(scales[0]), between(scales[1])
    assert outcome(lambda: compute(op, left, kinds[0], right, kinds[1])) == result


@pytest.mark.parametrize(
    ("value", "scale", "column", "stored"),
    [
        (5, 1, decimal(3, 0), 1),
        (-5, 1, decimal(3, 0), -1),
        (4, 1, decimal(3, 0), 0),
        (-4, 1, decimal(3, 0), 0),
        (9994, 1, decimal(3, 0), 999),
        (9995, 1, decimal(3, 0), "overflow"),
        (-9995, 1, decimal(3, 0), "overflow"),
        (7, 0, decimal(5, 3), 7000),
        (100, 0, decimal(5, 3), "overflow"),
        (BIG, 38, decimal(18, 18), "overflow"),
        (49, 38, decimal(18, 18), 0),
    ],
)
def test_assignment_rounds_half_up(value, scale, column, stored):
    assert outcome(lambda: values.assign(value, between(scale), column)) == stored


def test_assignment_keeps_one_nan():
    negative = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
    stored = values.assign(negative, FLOAT64, FLOAT64)
    assert struct.pack(">d", stored).hex() == "7ff8000000000000"
    assert values.assign(3, INT64, FLOAT64) == 3.0
    assert values.assign(105, decimal(5, 2), FLOAT64) == 1.05


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        ((NAN, FLOAT64), (INF, FLOAT64), 1),
        ((NAN, FLOAT64), (NAN, FLOAT64), 0),
        ((-0.0, FLOAT64), (0.0, FLOAT64), 0),
        ((2**53 + 1, INT64), (2.0**53, FLOAT64), 0),
        ((105, decimal(5, 2)), (1.05, FLOAT64), 0),
        ((105, decimal(5, 2)), (1, INT64), 1),
        ((BIG, between(0)), (1, between(38)), 1),
        ((-BIG, between(0)), (BIG, between(38)), -1),
        (("é", STRING), ("z", STRING), 1),
        (("", STRING), ("\x00", STRING), -1),
        (("\uffff", STRING), ("\U00010000", STRING), -1),
        ((True, BOOL), (False, BOOL), 1),
        ((-1, TIMESTAMP), (0, TIMESTAMP), -1),
    ],
)
def test_comparison(left, right, order):
    assert values.compare(*left, *right) == order
    assert values.compare(*right, *left) == -order


def test_the_first_of_equals_wins():
    assert repr(values.extreme("min", [0.0, -0.0], FLOAT64)) == "0.0"
    assert repr(values.extreme("max", [-0.0, 0.0], FLOAT64)) == "-0.0"
    assert math.isnan(values.extreme("max", [1.0, NAN, INF], FLOAT64))
    assert values.extreme("min", [NAN, INF, 1.0], FLOAT64) == 1.0


@pytest.mark.parametrize(
    ("kind", "taken", "given", "result"),
    [
        ("sum", [], INT64, 0),
        ("sum", [], FLOAT64, 0.0),
        ("count", [], INT64, 0),
        ("any", [], BOOL, False),
        ("all", [], BOOL, True),
        ("min", [], INT64, None),
        ("mean", [], FLOAT64, None),
        ("sum", [2**63 - 1, 1, -1], INT64, 2**63 - 1),
        ("sum", [2**63 - 1, 1], INT64, "overflow"),
        ("sum", [1e100, 1.0, -1e100], FLOAT64, 1.0),
        ("sum", [1e308, 1e308, -1e308], FLOAT64, 1e308),
        ("sum", [1e308, 1e308], FLOAT64, INF),
        ("sum", [INF, 1.0], FLOAT64, INF),
        ("mean", [1, 2], INT64, 1.5),
        ("mean", [2**63 - 1, 2**63 - 1], INT64, 2.0**63),
        ("mean", [0.1] * 10, FLOAT64, 0.1),
        ("mean", [100, 1, 1], decimal(5, 2), 34000000),
        ("sum", [BIG, 1], between(0), "overflow"),
        ("max", ["a", "é", "b"], STRING, "é"),
    ],
)
def test_reductions(kind, taken, given, result):
    kind_of_result = infer.reduction_type(kind, given)
    assert outcome(lambda: values.reduce(kind, taken, given, kind_of_result)) == result


def test_inf_minus_inf_is_nan():
    assert math.isnan(values.exact_float_sum([INF, -INF, 1.0]))


def test_negation_and_absolute():
    assert outcome(lambda: values.negate(-(2**63), INT64)) == "overflow"
    assert outcome(lambda: values.absolute(-(2**63), INT64)) == "overflow"
    assert repr(values.negate(0.0, FLOAT64)) == "-0.0"
    assert repr(values.absolute(-0.0, FLOAT64)) == "0.0"
    assert values.negate(BIG, between(0)) == -BIG


# ------------------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("op", "args", "result"),
    [
        ("add", [INT64, INT64], INT64),
        ("div", [INT64, INT64], FLOAT64),
        ("add", [INT64, decimal(5, 2)], between(2)),
        ("mul", [decimal(5, 2), decimal(5, 3)], between(5)),
        ("div", [decimal(5, 2), INT64], between(8)),
        ("floordiv", [decimal(5, 2), INT64], between(0)),
        ("mul", [decimal(5, 2), FLOAT64], FLOAT64),
        ("sub", [TIMESTAMP, TIMESTAMP], INT64),
        ("sub", [TIMESTAMP, INT64], TIMESTAMP),
        ("add", [INT64, TIMESTAMP], TIMESTAMP),
        ("add", [STRING, STRING], STRING),
        ("add", [UNKNOWN, INT64], UNKNOWN),
        ("add", [NULL, INT64], NULL),
        ("eq", [NULL, STRING], BOOL),
        ("where", [BOOL, INT64, NULL], INT64),
        ("where", [BOOL, INT64, FLOAT64], FLOAT64),
        ("coalesce", [NULL, decimal(5, 2), decimal(5, 2)], decimal(5, 2)),
        ("coalesce", [decimal(5, 2), decimal(5, 3)], between(3)),
        ("min", [INT64, decimal(5, 2)], between(2)),
        ("is_null", [list_of(INT64)], BOOL),
        ("neg", [decimal(5, 2)], decimal(5, 2)),
    ],
)
def test_result_types(op, args, result):
    assert infer.result_type(op, args) == result


@pytest.mark.parametrize(
    "text",
    ["bool", "int64", "float64", "string", "timestamp", "decimal(18, 18)", "decimal(1, 0)", "list<decimal(3, 1)>"],
)
def test_types_round_trip(text):
    kind = parse(text, "test")
    assert str(kind) == text
    assert from_arrow(to_arrow(kind)) == kind
    assert parse(to_arrow(kind), "test") == parse(kind, "test") == kind


def test_arrow_types_of_tables():
    app = ms.App("arrow")
    app.table("t", key=pa.string(), columns={"a": pa.int32(), "b": pa.decimal128(5, 2), "c": pa.timestamp("ns")},
              default={"a": 1, "b": Decimal("0.005"), "c": __import__("datetime").datetime(2020, 1, 1)})  # fmt: skip
    spec = app.program.tables[0]
    assert [str(kind) for _, kind in spec.columns] == ["int64", "decimal(5, 2)", "timestamp"]
    assert spec.default == (1, 1, 1_577_836_800_000_000)
