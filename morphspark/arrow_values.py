"""Arrow columns as Python values and back: for the oracle, and for single values."""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa

from . import types
from .columns import canonical
from .types import Type


def to_values(array: pa.Array, kind: Type) -> list[Any]:
    """A column as the values of `values.py`."""
    if kind.element is not None:
        return [None if one is None else [_unscaled(x, kind.element) for x in one] for one in _raw(array, kind)]
    return [_unscaled(one, kind) for one in _raw(array, kind)]


def _raw(array: pa.Array, kind: Type) -> list[Any]:
    if kind == types.TIMESTAMP:
        array = array.cast(pa.int64())
    elif kind.element == types.TIMESTAMP:
        array = array.cast(pa.list_(pa.int64()))
    return array.to_pylist()


def _unscaled(value: Any, kind: Type) -> Any:
    if value is None or kind.name != "decimal":
        return value
    return int(value.scaleb(kind.scale, context=decimal.Context(prec=80)))


def to_array(column: list[Any], kind: Type) -> pa.Array:
    if kind.name == "decimal":
        column = [None if one is None else _scaled(one, kind.scale) for one in column]
    if kind == types.TIMESTAMP:
        return canonical(pa.array(column, pa.int64()).cast(types.to_arrow(kind)))
    return canonical(pa.array(column, types.to_arrow(kind)))


def _scaled(unscaled: int, scale: int) -> decimal.Decimal:
    digits = tuple(map(int, str(abs(unscaled))))
    return decimal.Decimal((int(unscaled < 0), digits, -scale))
