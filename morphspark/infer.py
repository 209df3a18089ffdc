"""What type each operation gives, and which operands it takes.

Pure functions from types to a type; a mismatch raises `Mismatch` with the words for the user, and the
caller adds where it happened. `unknown` (an event column before the first batch) is accepted by every
operation: the same functions run again when the types are known. `null` takes the type of its partner.
"""

from __future__ import annotations

from .program import TableSpec
from .types import (
    BOOL,
    DECIMAL_DIGITS_BETWEEN,
    FLOAT64,
    INT64,
    NULL,
    STRING,
    TIMESTAMP,
    UNKNOWN,
    Type,
    array_of,
    between,
)

ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%"}
COMPARISON = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
LOGIC = {"and": "&", "or": "|", "xor": "^"}
EXTREMES = ("min", "max")
REDUCTIONS = ("sum", "count", "min", "max", "mean", "any", "all")
WINDOW_AGGREGATES = ("sum", "count", "min", "max", "mean", "first", "last", "nunique")

# A decimal quotient keeps this many digits more than its operands; assignment rounds the rest.
DECIMAL_DIVISION_DIGITS = 6


class Mismatch(Exception):
    """Operand types that don't fit an operation; the text says what would."""


def result_type(op: str, args: list[Type]) -> Type:
    """The type of a pure operation."""
    if op in ARITHMETIC:
        return _arithmetic(op, *args)
    if op in COMPARISON:
        return _comparison(op, *args)
    if op in LOGIC or op == "not":
        return _logic(op, args)
    if op in EXTREMES:
        return _extreme(op, args)
    if op == "work":
        return _word(args[0])
    if op == "random":
        return FLOAT64
    if op == "now":
        return TIMESTAMP
    if op in ("neg", "abs"):
        return _number_or_unknown(op, args[0])
    if op == "where":
        _expect_bool(args[0], "the condition of ms.where")
        return _one_value(args[1:], "the two sides of ms.where")
    if op == "coalesce":
        return _one_value(args, "the arguments of ms.coalesce")
    assert op == "is_null", op
    return BOOL


def _word(value: Type) -> Type:
    if value not in (INT64, UNKNOWN, NULL):
        raise Mismatch(f"work takes int64, not {value}")
    return value


def reduction_type(kind: str, value: Type) -> Type:
    if kind == "count":
        return INT64
    if kind in ("any", "all"):
        _expect_bool(value, f"ms.{kind}")
        return BOOL
    if value == NULL and kind == "sum":
        return INT64  # the sum of nothing is 0, and int64 fits every column of numbers
    if value in (UNKNOWN, NULL):
        return value
    if kind in ("min", "max"):
        if value == BOOL or value.element is not None:
            raise Mismatch(f"ms.{kind} has no order for {value}")
        return value
    if not value.is_number:
        raise Mismatch(f"ms.{kind} takes numbers, not {value}")
    if kind == "sum":
        return between(value.scale) if value.name == "decimal" else value
    if value.name == "decimal":
        return between(_division_scale(value.scale, 0))
    return FLOAT64


def window_type(kind: str, column: Type) -> Type:
    """The type of an aggregate over the versions of a table's column."""
    if kind in ("count", "nunique"):
        return INT64
    if kind in ("first", "last"):
        return column
    if kind == "values":
        return array_of(column)
    try:
        return reduction_type(kind, column)
    except Mismatch:
        takes = "numbers" if kind in ("sum", "mean") else "values that have an order"
        raise Mismatch(f".over(…).{kind}() takes {takes}, not {column}") from None


def unify(types: list[Type], what: str) -> Type:
    """The one type that holds all of these values."""
    joined = NULL
    for one in types:
        joined = _join(joined, one, what)
    return joined


def check_assignable(value: Type, column: Type, where: str) -> None:
    """Fail unless a value of this type may be stored in a column of that type."""
    if value in (UNKNOWN, NULL) or value == column:
        return
    if column == FLOAT64 and value.is_number:
        return
    if column.name == "decimal" and value.name in ("int64", "decimal"):
        return
    hint = ""
    if value == FLOAT64 and column.is_number:
        hint = "; use // for whole numbers, decimal.Decimal constants for decimals, or a float64 column"
    elif value.name == "decimal" and column == INT64:
        hint = "; use // 1 into a decimal column, or make the column a decimal"
    raise Mismatch(f"{where} is {column} and can't store {value}{hint}")


def check_key(part: Type, declared: Type, where: str) -> None:
    if part not in (UNKNOWN, NULL) and part != declared:
        raise Mismatch(f"{where} takes {declared}, not {part}")


def check_candidates(given: Type, table: TableSpec) -> None:
    """Fail unless a list column may hold the keys of a table."""
    if len(table.key) > 1:
        raise Mismatch(f"the key of {table.name!r} has several parts: among= takes a Python list of tuples of them")
    if given in (UNKNOWN, NULL):
        return
    if given.element is None:
        raise Mismatch(
            f"among= takes a list column or a Python list of keys, not {given}; for one candidate write [it]"
        )
    check_key(given.element, table.key[0][1], f"a candidate for the key of {table.name!r}")


def check_condition(condition: Type, what: str) -> None:
    _expect_bool(condition, what)


def _arithmetic(op: str, left: Type, right: Type) -> Type:
    sign = ARITHMETIC[op]
    pair = {left, right}
    if UNKNOWN in pair:
        return _arithmetic_with_unknown(op, sign, left, right)
    if NULL in pair:
        return NULL  # it will abort: there is no value to have a type
    if TIMESTAMP in pair:
        return _time_arithmetic(op, sign, left, right)
    if pair == {STRING} and op == "add":
        return STRING
    if not (left.is_number and right.is_number):
        return _no_arithmetic(sign, left, right)
    if FLOAT64 in pair:
        return FLOAT64
    if pair == {INT64}:
        return FLOAT64 if op == "div" else INT64
    return _decimal_arithmetic(op, left.scale, right.scale)


def _decimal_arithmetic(op: str, left: int, right: int) -> Type:
    scale = {"mul": left + right, "div": _division_scale(left, right), "floordiv": 0}.get(op, max(left, right))
    if scale > DECIMAL_DIGITS_BETWEEN:
        raise Mismatch(
            f"the result of {ARITHMETIC[op]} would have {scale} digits behind the point, "
            f"more than {DECIMAL_DIGITS_BETWEEN}; assign to a column in between"
        )
    return between(scale)


def _division_scale(left: int, right: int) -> int:
    return max(left, right) + DECIMAL_DIVISION_DIGITS


def _time_arithmetic(op: str, sign: str, left: Type, right: Type) -> Type:
    """Timestamps move by microseconds (int64), and two of them differ by microseconds."""
    if op == "sub" and left == right:
        return INT64
    if op == "sub" and (left, right) == (TIMESTAMP, INT64):
        return TIMESTAMP
    if op == "add" and INT64 in (left, right):
        return TIMESTAMP
    return _no_arithmetic(sign, left, right)


def _arithmetic_with_unknown(op: str, sign: str, left: Type, right: Type) -> Type:
    for known in (left, right):
        if known not in (UNKNOWN, NULL, STRING, TIMESTAMP) and not known.is_number:
            _no_arithmetic(sign, left, right)
        if known == STRING and op != "add" or known == TIMESTAMP and op not in ("add", "sub"):
            _no_arithmetic(sign, left, right)
    return UNKNOWN


def _no_arithmetic(sign: str, left: Type, right: Type) -> Type:
    raise Mismatch(f"{left} {sign} {right} is not defined")


def _comparison(op: str, left: Type, right: Type) -> Type:
    sides = unify([left, right], f"the two sides of {COMPARISON[op]}")
    if sides.element is not None or (sides == BOOL and op not in ("eq", "ne")):
        raise Mismatch(f"{sides} has no order for {COMPARISON[op]}")
    return BOOL


def _logic(op: str, args: list[Type]) -> Type:
    for arg in args:
        if arg not in (BOOL, UNKNOWN, NULL):
            raise Mismatch(f"{LOGIC.get(op, '~')} combines conditions (bool), not {arg}")
    return BOOL


def _extreme(op: str, args: list[Type]) -> Type:
    joined = unify(args, f"the arguments of ms.{op}")
    if joined == BOOL or joined.element is not None:
        raise Mismatch(f"ms.{op} has no order for {joined}")
    return joined


def _one_value(args: list[Type], what: str) -> Type:
    joined = unify(args, what)
    if joined.element is not None:
        raise Mismatch(f"{what} are lists; a list column is used in ms.each and in reductions only")
    return joined


def _number_or_unknown(op: str, arg: Type) -> Type:
    if arg.is_number or arg in (UNKNOWN, NULL):
        return arg
    raise Mismatch(f"{op} takes a number, not {arg}")


def _expect_bool(arg: Type, what: str) -> None:
    if arg not in (BOOL, UNKNOWN, NULL):
        raise Mismatch(f"{what} is a condition (bool), not {arg}")


def _join(left: Type, right: Type, what: str) -> Type:
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if UNKNOWN in (left, right):
        return UNKNOWN
    if left.is_number and right.is_number:
        if FLOAT64 in (left, right):
            return FLOAT64
        return between(max(left.scale, right.scale))
    raise Mismatch(f"{what} are {left} and {right}; they need one type")
