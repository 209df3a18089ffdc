"""The logical types of events, tables and traced values.

    bool  int64  float64  string  timestamp  decimal(p, s)      values
    list<T>                                                     event columns only
    array<T>                                                    the values of a window, for a user function
    row                                                         a handle; reads nothing by itself
    null                                                        an all-null column, or None: takes any type
    unknown                                                     an event column before the first batch

A table column holds decimals of at most 18 digits; between two assignments a decimal may have 38.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from .errors import SchemaError

DECIMAL_DIGITS_STORED = 18
DECIMAL_DIGITS_BETWEEN = 38


@dataclass(frozen=True, slots=True)
class Type:
    name: str
    precision: int = 0
    scale: int = 0
    element: Type | None = None

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision}, {self.scale})"
        if self.element is not None:
            return f"{self.name}<{self.element}>"
        return self.name

    @property
    def is_number(self) -> bool:
        return self.name in ("int64", "float64", "decimal")


BOOL = Type("bool")
INT64 = Type("int64")
FLOAT64 = Type("float64")
STRING = Type("string")
TIMESTAMP = Type("timestamp")
NULL = Type("null")
UNKNOWN = Type("unknown")
ROW = Type("row")

_SIMPLE = {t.name: t for t in (BOOL, INT64, FLOAT64, STRING, TIMESTAMP, NULL)}
_DECIMAL = re.compile(r"decimal(?:128)?\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_LIST = re.compile(r"list\s*<\s*(.+)\s*>")


def decimal(precision: int, scale: int) -> Type:
    return Type("decimal", precision, scale)


def between(scale: int) -> Type:
    """The type of a decimal result that was not assigned yet."""
    return decimal(DECIMAL_DIGITS_BETWEEN, scale)


def list_of(element: Type) -> Type:
    return Type("list", element=element)


def array_of(element: Type) -> Type:
    return Type("array", element=element)


def parse(text: str | pa.DataType | Type, what: str) -> Type:
    """The type that a user wrote; `what` names the place in the error."""
    if isinstance(text, Type):
        return text
    if isinstance(text, pa.DataType):
        found = from_arrow(text)
    else:
        found = _parse_text(str(text).strip())
    if found is None:
        raise SchemaError(
            f"{what}: unknown type {text!r}; expected bool, int64, float64, string, timestamp, "
            f"decimal(p, s) with p <= {DECIMAL_DIGITS_STORED}, or list<type> for an event column"
        )
    return found


def _parse_text(text: str) -> Type | None:
    if text in _SIMPLE:
        return _SIMPLE[text]
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[1]), int(match[2])
        return decimal(precision, scale) if _decimal_fits(precision, scale) else None
    if match := _LIST.fullmatch(text):
        element = _parse_text(match[1].strip())
        return list_of(element) if element is not None and element.element is None else None
    return None


def _decimal_fits(precision: int, scale: int) -> bool:
    return 1 <= precision <= DECIMAL_DIGITS_STORED and 0 <= scale <= precision


def from_arrow(arrow: pa.DataType) -> Type | None:
    """The logical type that an Arrow column is read as, or None where a transaction can't use it."""
    kinds = pa.types
    if kinds.is_dictionary(arrow):
        return from_arrow(arrow.value_type)
    if kinds.is_boolean(arrow):
        return BOOL
    if kinds.is_integer(arrow):
        return None if kinds.is_uint64(arrow) else INT64
    if kinds.is_float32(arrow) or kinds.is_float64(arrow):
        return FLOAT64
    if kinds.is_string(arrow) or kinds.is_large_string(arrow) or kinds.is_string_view(arrow):
        return STRING
    if kinds.is_timestamp(arrow):
        return TIMESTAMP
    if kinds.is_decimal(arrow):
        return decimal(arrow.precision, arrow.scale) if _decimal_fits(arrow.precision, arrow.scale) else None
    if kinds.is_null(arrow):
        return NULL
    if kinds.is_list(arrow) or kinds.is_large_list(arrow) or kinds.is_fixed_size_list(arrow):
        element = from_arrow(arrow.value_type)
        return list_of(element) if element is not None and element.element is None else None
    return None


def to_arrow(logical: Type) -> pa.DataType:
    """The one Arrow type in which the engines read and write a logical type."""
    if logical.name == "decimal":
        return pa.decimal128(logical.precision, logical.scale)
    if logical.element is not None:
        return pa.list_(to_arrow(logical.element))
    return {
        "bool": pa.bool_(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "string": pa.string(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "null": pa.null(),
    }[logical.name]
