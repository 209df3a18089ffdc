"""Canonical Arrow: equal values are equal bytes, whatever type, encoding, chunks or slices they came in."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.columns import canonical
from morphspark.testing import assert_same, check_canonical

DAY = datetime.date(2020, 1, 1)
MONEY = [Decimal("1.1"), None, Decimal("-2.2")]
LISTS = [[1, None], None, [], [2]]

PLAIN = {
    "int8": pa.array([1, None, 3], pa.int8()),
    "uint64": pa.array([1, None, 2**64 - 1], pa.uint64()),
    "float16": pa.array([1.0, None, 2.0]).cast(pa.float16()),
    "float64": pa.array([1.0, None, float("nan")]),
    "bool": pa.array([True, None, False]),
    "null": pa.nulls(3),
    "string": pa.array(["a", None, ""]),
    "large_string": pa.array(["a", None, "é"], pa.large_string()),
    "binary": pa.array([b"a", None, b""], pa.binary()),
    "large_binary": pa.array([b"a", None, b""], pa.large_binary()),
    "fixed_size_binary": pa.array([b"abc", None, b"def"], pa.binary(3)),
    "decimal32": pa.array(MONEY, pa.decimal32(5, 1)),
    "decimal64": pa.array(MONEY, pa.decimal64(5, 1)),
    "decimal128": pa.array(MONEY, pa.decimal128(5, 1)),
    "decimal256": pa.array(MONEY, pa.decimal256(50, 1)),
    "date32": pa.array([DAY, None, DAY]),
    "date64": pa.array([DAY, None, DAY], pa.date64()),
    "time32": pa.array([1, None, 2], pa.time32("s")),
    "time64": pa.array([1, None, 2], pa.time64("us")),
    "duration": pa.array([1, None, 2], pa.duration("us")),
    "interval": pa.array([pa.MonthDayNano([1, 2, 3]), None, pa.MonthDayNano([1, 2, 4])]),
    "timestamp": pa.array([1, None, 2], pa.timestamp("ns", "Asia/Tokyo")),
    "list": pa.array(LISTS, pa.list_(pa.int8())),
    "large_list": pa.array(LISTS, pa.large_list(pa.int8())),
    "fixed_size_list": pa.array([[1, None], None, [3, 4]], pa.list_(pa.int8(), 2)),
    "list_of_lists": pa.array([[[1], None], None, [[], [2, None]]]),
    "list_of_structs": pa.array([[{"a": 1}], None, [None, {"a": None}]]),
    "list_named_element": pa.array([[1], None, []], pa.list_(pa.field("element", pa.int8(), nullable=False))),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    "struct_without_fields": pa.array([{}, None, {}], pa.struct([])),
    "map": pa.array([[("k", 1)], None, [("l", None)]], pa.map_(pa.string(), pa.int64())),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16, None, b"y" * 16], pa.binary(16))),
}
ENCODED = {
    "dictionary": (pa.array(["a", None, "b"]).dictionary_encode(), pa.string()),
    "dictionary_with_null_value": (
        pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), pa.array(["a", None])),
        pa.string(),
    ),
    "dictionary_of_views": (
        pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["a", "b"], pa.string_view())),
        pa.string(),
    ),
    "string_view": (pa.array(["a", None, "x" * 40], pa.string_view()), pa.string()),
    "binary_view": (pa.array([b"a", None, b"x" * 40], pa.binary_view()), pa.binary()),
    "list_view": (pa.array(LISTS, pa.list_view(pa.int8())), pa.list_(pa.int8())),
    "large_list_view": (pa.array(LISTS, pa.large_list_view(pa.int8())), pa.large_list(pa.int8())),
    "list_of_dictionaries": (
        pa.array([["a"], None, ["b", None]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        pa.list_(pa.string()),
    ),
    "list_of_views": (pa.array([["a"], None, ["b", None]], pa.list_(pa.string_view())), pa.list_(pa.string())),
    "struct_of_dictionaries": (
        pa.StructArray.from_arrays([pa.array(["a", None, "b"]).dictionary_encode()], ["d"]),
        pa.struct([("d", pa.string())]),
    ),
    "map_of_views": (
        pa.array([[("k", "x")], None, [("l", None)]], pa.map_(pa.string_view(), pa.string_view())),
        pa.map_(pa.string(), pa.string()),
    ),
    "runs": (pa.RunEndEncodedArray.from_arrays([2, 3], [1, None]), pa.int64()),
}
ALL = {**PLAIN, **{name: array for name, (array, _) in ENCODED.items()}}


def same(array, values, kind):
    made = canonical(array)
    check_canonical(pa.table({"c": made}))
    assert made.type == kind
    assert repr(made.to_pylist()) == repr(values)
    return made


@pytest.mark.parametrize("name", ALL)
def test_every_type(name):
    array = ALL[name]
    kind = ENCODED[name][1] if name in ENCODED else array.type
    whole = same(array, array.to_pylist(), kind)
    assert_same(pa.table({"c": canonical(whole)}), pa.table({"c": whole}))
    same(array.slice(0, 0), [], kind)
    assert_same(pa.table({"c": same(array.slice(1), array.slice(1).to_pylist(), kind)}),
                pa.table({"c": canonical(pa.array(array.slice(1).to_pylist(), kind))}) if name != "uuid" else
                pa.table({"c": canonical(array.slice(1))}))  # fmt: skip
    if name != "runs":
        twice = pa.concat_arrays([array, array])
        same(twice.slice(2, 3), twice.slice(2, 3).to_pylist(), kind)
    no_nulls = array.slice(0, 1)
    same(no_nulls, no_nulls.to_pylist(), kind)


@pytest.mark.parametrize("name", [name for name in ALL if name != "null"])
def test_every_type_passes_through_both_engines(name, opened):
    """Columns that no transaction uses pass through, in transaction order, whatever their type."""
    array = ALL[name].slice(0, 3)
    app = ms.App("through", order_by="ts", late="divert")

    @app.on()
    def run(e):
        pass

    engines = opened(app, threads=(1, 2))
    result = engines.process(pa.table({"ts": [3, 1, 2], "c": array}))
    values = array.to_pylist()
    assert repr(result["c"].to_pylist()) == repr([values[1], values[2], values[0]])
    engines.process(pa.table({"ts": [1, 9, 2], "c": pa.chunked_array([array])}))
    assert repr(engines.late["c"].to_pylist()) == repr([values[0], values[2]])
    prefix = engines.process(pa.table({"ts": [20], "c": array.slice(0, 1)}))
    assert repr(prefix["c"].to_pylist()) == repr(values[:1])


@pytest.mark.parametrize("name", ["int8", "float64", "decimal128", "bool", "fixed_size_binary", "date32", "timestamp"])
def test_ghosts_under_nulls_vanish(name, opened):
    """Nulls may hide any bytes; results have zeros there."""
    array = PLAIN[name]
    values = array.buffers()[1].to_pybytes()
    ghost = pa.py_buffer(b"\xff" * len(values))
    haunted = pa.Array.from_buffers(array.type, 3, [array.buffers()[0], ghost])
    clean = canonical(haunted)
    check_canonical(pa.table({"c": clean}))
    result = opened(ms.App("ghosts")).process(pa.table({"c": haunted}))
    assert (
        result["c"].chunk(0).buffers()[1].to_pybytes()[: len(values)] == clean.buffers()[1].to_pybytes()[: len(values)]
    )


def test_ghosts_in_strings_and_lists(opened):
    bits = pa.py_buffer(b"\x05")
    offsets = pa.py_buffer(np.array([1, 2, 5, 6], np.int32).tobytes())
    text = pa.Array.from_buffers(pa.string(), 3, [bits, offsets, pa.py_buffer(b"?abcde")])
    listed = pa.Array.from_buffers(pa.list_(pa.int64()), 3, [bits, offsets], children=[pa.array(range(6))])
    result = opened(ms.App("ghosts")).process(pa.table({"s": text, "l": listed}))
    assert result.select(["s", "l"]).to_pydict() == {"s": ["a", None, "e"], "l": [[1], None, [5]]}
    assert result["s"].chunk(0).buffers()[2].to_pybytes()[:2] == b"ae"


def test_one_result_for_all_encodings(counter, opened):
    """The same events in any encoding give the same bytes in every column that morphspark makes."""
    plain = {"ts": [5, 1, 3, 3], "key": [1, 2, 1, None], "amount": [1, 2, None, 4]}
    expected = opened(counter).process(pa.table(plain))
    forms = [
        lambda c: pa.array(c, pa.int32()),
        lambda c: pa.array(c, pa.int8()).dictionary_encode(),
        lambda c: pa.chunked_array([c[:1], [], c[1:3], c[3:]], pa.int64()),
        lambda c: pa.concat_arrays([pa.array([9, None, 9]), pa.array(c)]).slice(3),
        lambda c: pa.array(c, pa.uint16()),
    ]
    for form in forms:
        result = opened(counter).process(pa.table({name: form(column) for name, column in plain.items()}))
        own = ["total", "_status", "_reason", "_epoch", "_ts"]
        assert_same(result.select(own), expected.select(own))


def test_one_result_for_all_encodings_of_lists(opened):
    app = ms.App("lists")

    @app.on()
    def run(e):
        return {"n": ms.count(e.l), "longest": ms.max(e.l)}

    lists = [["a", "bc"], ["d"], None, ["a", "bc"], []]
    plain = pa.array(lists)
    expected = opened(app).process(pa.table({"l": plain})).drop_columns(["l"])
    indices = pa.array([0, 1, None, 0, 2], pa.int8())
    words = pa.array([["a", "bc"], ["d"], []], pa.list_(pa.dictionary(pa.int8(), pa.string())))
    for other in (
        pa.DictionaryArray.from_arrays(indices, pa.array([["a", "bc"], ["d"], []])),
        pa.DictionaryArray.from_arrays(indices, pa.array([["a", "bc"], ["d"], []], pa.large_list(pa.large_string()))),
        pa.DictionaryArray.from_arrays(indices, words),
        pa.array(lists, pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    ):
        chunks = pa.chunked_array([other.slice(0, 2), other.slice(2).take(pa.array([0, 1, 2]))])
        assert opened(app).process(pa.table({"l": chunks})).drop_columns(["l"]).equals(expected)
        with app.open() as engine:
            assert engine.process(pa.table({"l": pa.chunked_array([], other.type)})).num_rows == 0
    one, two = (pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([[text]])) for text in "ab")
    assert opened(app).process(pa.table({"l": pa.chunked_array([one, two])}))["longest"].to_pylist() == ["a", "b"]


def test_the_checks_check():
    sliced = pa.array([1, 2, 3]).slice(1)
    idle = pa.Array.from_buffers(pa.int64(), 1, [pa.py_buffer(b"\x01"), pa.py_buffer(bytes(8))])
    ghost = pa.Array.from_buffers(pa.int64(), 1, [pa.py_buffer(b"\x00"), pa.py_buffer(b"\x01" * 8)])
    chunks = pa.chunked_array([[1], [2]])
    for bad, word in [(sliced, "offset"), (idle, "validity"), (ghost, "under its nulls"), (chunks, "2 chunks"),
                      (pa.array(["a"]).dictionary_encode(), "dictionary")]:  # fmt: skip
        with pytest.raises(AssertionError, match=word):
            check_canonical(pa.table({"c": bad}))
    one = pa.table({"c": [0.0, 1.0]})
    for other, word in [(pa.table({"c": [-0.0, 1.0]}), "row 0"), (pa.table({"d": [0.0, 1.0]}), "schemas"),
                        (pa.table({"c": [0.0]}), "number of rows")]:  # fmt: skip
        with pytest.raises(AssertionError, match=word):
            assert_same(one, other)
