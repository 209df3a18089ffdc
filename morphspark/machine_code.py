"""The numbers that a compiled program is made of, as csrc/program/code.h has them: operations, failures, kinds.

The order of each list is that of the enumeration there; tests/test_lower.py compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .types import Type

OPS = {
    name: number
    for number, name in enumerate(
        [
            "Stop",
            "Jump",
            "SkipUnless",
            "SkipIfNull",
            "Each",
            "End",
            "Need",
            "Require",
            "When",
            "Copy",
            "SetNull",
            "IntToFloat",
            "DecimalToFloat",
            "DecimalUp",
            "DecimalAssign",
            "IsNull",
            "AddI",
            "SubI",
            "MulI",
            "FloorDivI",
            "ModI",
            "NegI",
            "AbsI",
            "AddF",
            "SubF",
            "MulF",
            "DivF",
            "FloorDivF",
            "ModF",
            "NegF",
            "AbsF",
            "AddD",
            "SubD",
            "MulD",
            "DivD",
            "FloorDivD",
            "ModD",
            "NegD",
            "AbsD",
            "Concat",
            "CompareI",
            "CompareF",
            "CompareD",
            "CompareS",
            "And",
            "Or",
            "Xor",
            "Not",
            "MinI",
            "MaxI",
            "MinF",
            "MaxF",
            "MinD",
            "MaxD",
            "MinS",
            "MaxS",
            "RowOfElement",
            "RowOfKey",
            "CheckKey",
            "Exists",
            "ReadI",
            "ReadB",
            "ReadS",
            "ReadD",
            "WriteI",
            "WriteF",
            "WriteB",
            "WriteS",
            "WriteD",
            "IncreaseI",
            "DecreaseI",
            "IncreaseF",
            "DecreaseF",
            "Insert",
            "Store",
            "Delete",
            "Begin",
            "Accumulate",
            "Reduce",
            "Call",
            "Emit",
            "Window",
            "Rows",
            "Collect",
            "WindowOfRows",
            "CollectElements",
            "Choose",
            "Random",
            "Now",
            "Work",
        ]
    )
}
FAILURES = (
    "null0",
    "null1",
    "null2",
    "overflow",
    "division",
    "key",
    "missing",
    "exists",
    "list",
    "require",
    "udf",
    "outside",
)
REDUCTIONS = ("sum", "count", "min", "max", "mean", "any", "all")
WINDOW_AGGREGATES = ("sum", "count", "min", "max", "mean", "first", "last", "nunique", "values")
ARRAY_MARK = 16  # as in csrc/program/user_function.h
NOT_DUE = "trigger: not due"  # nobody sees it
WINDOW_BY = {"time": 0, "int": 0, "rows": 1, "trigger": 2}
NO_TABLE = 2**32 - 1
WORK_KINDS = ("smooth", "branchy")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
KINDS = ("null", "bool", "int64", "float64", "string", "timestamp", "decimal", "list")
MATCHES = ("int", "float", "int_as_float", "decimal", "decimal_as_float", "bool", "string")
CONSTANT_PART = 1 << 31


def kind_code(kind: Type) -> int:
    if kind.name == "array":
        assert kind.element is not None
        return ARRAY_MARK + kind_code(kind.element)
    return KINDS.index(kind.name)


def listed(items: Iterable[Sequence[int]]) -> list[int]:
    """A list in the encoding: how many, then each."""
    all_items = list(items)
    return [len(all_items), *(word for item in all_items for word in item)]
