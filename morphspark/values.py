"""What every operation means, in obvious Python: the rules that the native core must match to the last bit.

A value is held as: bool → bool, int64 and timestamp → int, float64 → float, string → str, decimal → the
unscaled int (its type has the scale), null → None. An operation that can't give a value raises `Failure`
with the failure's name, which aborts the transaction.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from .types import DECIMAL_DIGITS_BETWEEN, FLOAT64, Type

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_DECIMAL_LIMIT = 10**DECIMAL_DIGITS_BETWEEN


class Failure(Exception):
    """Why a transaction aborts: "overflow", "division", "null0", "missing", …"""

    def __init__(self, kind: str):
        super().__init__(kind)
        self.kind = kind


# ------------------------------------------------------------------------------------------- conversions


def checked(value: int, kind: Type) -> int:
    """An exact integer result, if its type can hold it."""
    if kind.name == "decimal":
        fits = -_DECIMAL_LIMIT < value < _DECIMAL_LIMIT
    else:
        fits = INT64_MIN <= value <= INT64_MAX
    if not fits:
        raise Failure("overflow")
    return value


def to_float(value: Any, kind: Type) -> float:
    if kind.name == "decimal":
        return value / 10**kind.scale  # int / int is rounded once, correctly
    return float(value)


def convert(value: Any, given: Type, wanted: Type) -> Any:
    """A value in the type that an operation works in; decimals only ever gain digits here."""
    if value is None or given == wanted:
        return value
    if wanted == FLOAT64:
        return to_float(value, given)
    if wanted.name == "decimal":
        return checked(value * 10 ** (wanted.scale - given.scale), wanted)
    return value


def assign(value: Any, given: Type, column: Type) -> Any:
    """A value as the column stores it: decimals are rounded half up to its scale and must fit its precision."""
    if column.name != "decimal":
        return one_nan(convert(value, given, column))
    stored = rescale(value, given.scale, column.scale)
    if abs(stored) >= 10**column.precision:
        raise Failure("overflow")
    return stored


def one_nan(value: Any) -> Any:
    """Which NaN an operation gives depends on the machine; the one that is stored or returned does not."""
    return math.nan if isinstance(value, float) and value != value else value


def rescale(value: int, given: int, wanted: int) -> int:
    if wanted >= given:
        return value * 10 ** (wanted - given)
    return divide_half_up(value, 10 ** (given - wanted))


def divide_half_up(numerator: int, denominator: int) -> int:
    """The nearest integer to a quotient; ties go away from zero."""
    quotient, remainder = divmod(abs(numerator), abs(denominator))
    quotient += 2 * remainder >= abs(denominator)
    return quotient if (numerator < 0) == (denominator < 0) else -quotient


# -------------------------------------------------------------------------------------------- operations


def arithmetic(op: str, left: Any, left_type: Type, right: Any, right_type: Type, result: Type) -> Any:
    if result.name == "string":
        return left + right
    if result.name == "decimal":
        return _decimal_arithmetic(op, left, left_type, right, right_type, result)
    if op in ("div", "floordiv", "mod") and right == 0:
        raise Failure("division")
    if result == FLOAT64:
        return _float_arithmetic(op, to_float(left, left_type), to_float(right, right_type))
    return checked(_integer_arithmetic(op, left, right), result)


def _integer_arithmetic(op: str, left: int, right: int) -> int:
    if op == "add":
        return left + right
    if op == "sub":
        return left - right
    if op == "mul":
        return left * right
    return left // right if op == "floordiv" else left % right


def _float_arithmetic(op: str, left: float, right: float) -> float:
    if op == "div":
        return left / right
    if op == "floordiv":
        return left // right
    return left % right if op == "mod" else _integer_arithmetic(op, left, right)  # type: ignore[arg-type]


def _decimal_arithmetic(op: str, left: int, left_type: Type, right: int, right_type: Type, result: Type) -> int:
    if op == "mul":
        return checked(left * right, result)
    if op == "div":
        if right == 0:
            raise Failure("division")
        shift = result.scale + right_type.scale - left_type.scale
        return checked(divide_half_up(checked(left * 10**shift, result), right), result)
    scale = max(left_type.scale, right_type.scale)
    left = checked(left * 10 ** (scale - left_type.scale), result)
    right = checked(right * 10 ** (scale - right_type.scale), result)
    if op in ("floordiv", "mod") and right == 0:
        raise Failure("division")
    return checked(_integer_arithmetic(op, left, right), result)


def compare(left: Any, left_type: Type, right: Any, right_type: Type) -> int:
    """-1, 0 or 1. NaN is largest and equals NaN; strings by their bytes, which is the order of code points."""
    if FLOAT64 in (left_type, right_type):
        left, right = to_float(left, left_type), to_float(right, right_type)
        if left != left or right != right:
            return (left != left) - (right != right)
    elif left_type.scale != right_type.scale:
        scale = max(left_type.scale, right_type.scale)
        left, right = left * 10 ** (scale - left_type.scale), right * 10 ** (scale - right_type.scale)
    return (left > right) - (left < right)


COMPARISONS = {
    "eq": lambda order: order == 0,
    "ne": lambda order: order != 0,
    "lt": lambda order: order < 0,
    "le": lambda order: order <= 0,
    "gt": lambda order: order > 0,
    "ge": lambda order: order >= 0,
}


def negate(value: Any, kind: Type) -> Any:
    return -value if kind == FLOAT64 else checked(-value, kind)


def absolute(value: Any, kind: Type) -> Any:
    return abs(value) if kind == FLOAT64 else checked(abs(value), kind)


def extreme(op: str, values: list[Any], kind: Type) -> Any:
    """The smallest or largest; of equal ones the first."""
    best = values[0]
    for value in values[1:]:
        order = compare(value, kind, best, kind)
        if order < 0 if op == "min" else order > 0:
            best = value
    return best


# -------------------------------------------------------------------------------------------- reductions


def reduce(kind: str, values: list[Any], given: Type, result: Type) -> Any:
    """A reduction of values that are all there."""
    if kind == "count":
        return len(values)
    if kind == "any":
        return any(values)
    if kind == "all":
        return all(values)
    if kind == "sum":
        return _sum(values, given, result)
    if not values:
        return None
    if kind == "mean":
        return _mean(values, given, result)
    return extreme(kind, values, given)


def window(kind: str, values: list[Any], given: Type, result: Type) -> Any:
    """An aggregate of the versions in a window, the oldest first."""
    if kind in ("first", "last"):
        return None if not values else values[0 if kind == "first" else -1]
    if kind == "values":
        return values
    if kind == "nunique":
        return len({_one_of_equals(value) for value in values})
    return reduce(kind, values, given, result)


def _one_of_equals(value: Any) -> Any:
    """Something that is equal, by Python's rules, for values that are."""
    return "nan" if isinstance(value, float) and value != value else value


def _sum(values: list[Any], given: Type, result: Type) -> Any:
    """The exact sum, rounded or judged once at the end."""
    return exact_float_sum(values) if given == FLOAT64 else checked(sum(values), result)


def _mean(values: list[Any], given: Type, result: Type) -> Any:
    if given == FLOAT64:
        return exact_float_sum(values) / len(values)
    if given.name == "decimal":
        total = checked(sum(values) * 10 ** (result.scale - given.scale), result)
        return checked(divide_half_up(total, len(values)), result)
    return float(sum(values)) / len(values)


def exact_float_sum(values: list[float]) -> float:
    """The sum as if with unlimited precision, rounded once: `math.fsum` without its overflow errors."""
    special = [value for value in values if value != value or value in (float("inf"), float("-inf"))]
    if special:
        return sum(special)
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")
