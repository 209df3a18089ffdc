"""Traced values: what a transaction function sees in place of numbers and strings.

A `Value` stands for a value that exists only when the transaction runs. Operators on it record steps in the
tracer of the function being traced; anything that would need the value now (a Python `if`, `int()`, an
f-string) raises an error that names what to write instead.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from . import types
from .errors import TraceError
from .program import Const, Operand
from .types import Type

if TYPE_CHECKING:
    from .trace import Scope, Tracer

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

_NO_BOOL = (
    "a traced value has no truth value yet: `if`, `and`, `or`, `not`, `while`, `in` and chained comparisons need one. "
    "Write ms.where(c, a, b) for a choice of values, `with ms.when(c):` for conditional writes, "
    "ms.require(c, \"…\") to abort, `&`, `|`, `~` to combine conditions, ms.min/ms.max for the smaller or larger"
)  # fmt: skip
_NO_LOOKUP = (
    "a traced value can't be looked up in a dict or a set: which entry it is, only each event says. Keep the entries "
    'in a table (rates = app.table(…), engine.load("rates", …), rates[e.currency].rate), or choose with ms.where(…)'
)
# Everything that Python does with two values or one by an operator.
_ARITHMETIC = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
)
OPERATORS = (
    *(f"__{prefix}{name}__" for name in _ARITHMETIC for prefix in ("", "r", "i")),
    *(f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "invert", "abs")),
)


class Traced:
    """What values, rows and lists have in common: no use that needs the value now."""

    __slots__ = ()

    def __hash__(self) -> int:
        self._refuse(_NO_LOOKUP)

    def _refuse(self, what: str) -> NoReturn:
        from .trace import trace_error

        raise trace_error(what)

    def __bool__(self) -> bool:
        self._refuse(_NO_BOOL)

    def __iter__(self) -> NoReturn:
        self._refuse("a traced value can't be iterated; write `for x in ms.each(e.items):` over a list column")

    def __len__(self) -> int:
        self._refuse("a traced value has no length yet; ms.count(e.items) counts the elements of a list column")

    def __index__(self) -> int:
        self._refuse("a traced value can't become a Python int; compute with it directly")

    __int__ = __index__

    def __float__(self) -> float:
        self._refuse("a traced value can't become a Python float; compute with it directly")

    def __str__(self) -> str:
        self._refuse("a traced value can't become text (print, str, f-string); join strings with +")

    def __format__(self, spec: str) -> str:
        return str(self)


class Method(Traced):
    """`row.exists` and `value.is_null`, to be called. Anything else that is done with one forgot the parentheses."""

    __slots__ = ("_call", "_name")

    def __init__(self, name: str, call: Callable[[], Value]):
        self._name = name
        self._call = call

    def __call__(self) -> Value:
        return self._call()

    def _refuse(self, what: str) -> NoReturn:
        self._not_a_value()

    def _not_a_value(self) -> NoReturn:
        super()._refuse(f"{self._name} is to be called: write {self._name}(), with parentheses")


def refuses_operators(cls: type) -> type:
    """A class whose objects are no values: every operator says so, by `_not_a_value`."""

    def refuse(self: Any, *_: Any) -> NoReturn:
        self._not_a_value()

    for name in OPERATORS:
        setattr(cls, name, refuse)
    cls.__hash__ = Traced.__hash__  # type: ignore[method-assign]  # a class with __eq__ would have none
    return cls


refuses_operators(Method)


class Value(Traced):
    """A value of a transaction: an operand with its type, and the loop iteration in which it exists."""

    __slots__ = ("operand", "scope", "tracer", "type")

    def __init__(self, tracer: Tracer, operand: Operand, type: Type, scope: Scope):
        self.tracer = tracer
        self.operand = operand
        self.type = type
        self.scope = scope

    def __repr__(self) -> str:
        return f"<traced {self.type}>"

    @property
    def is_null(self) -> Method:
        """`x.is_null()`: does it have no value?"""
        return Method("is_null", lambda: self.tracer.value("is_null", self))

    def __add__(self, other: Any) -> Value:
        return self.tracer.value("add", self, other)

    def __radd__(self, other: Any) -> Value:
        return self.tracer.value("add", other, self)

    def __sub__(self, other: Any) -> Value:
        return self.tracer.value("sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self.tracer.value("sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return self.tracer.value("mul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return self.tracer.value("mul", other, self)

    def __truediv__(self, other: Any) -> Value:
        return self.tracer.value("div", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return self.tracer.value("div", other, self)

    def __floordiv__(self, other: Any) -> Value:
        return self.tracer.value("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Value:
        return self.tracer.value("floordiv", other, self)

    def __mod__(self, other: Any) -> Value:
        return self.tracer.value("mod", self, other)

    def __rmod__(self, other: Any) -> Value:
        return self.tracer.value("mod", other, self)

    def __neg__(self) -> Value:
        return self.tracer.value("neg", self)

    def __pos__(self) -> Value:
        return self

    def __abs__(self) -> Value:
        return self.tracer.value("abs", self)

    def __eq__(self, other: Any) -> Value:  # type: ignore[override]
        return self.tracer.value("eq", self, other)

    def __ne__(self, other: Any) -> Value:  # type: ignore[override]
        return self.tracer.value("ne", self, other)

    def __lt__(self, other: Any) -> Value:
        return self.tracer.value("lt", self, other)

    def __le__(self, other: Any) -> Value:
        return self.tracer.value("le", self, other)

    def __gt__(self, other: Any) -> Value:
        return self.tracer.value("gt", self, other)

    def __ge__(self, other: Any) -> Value:
        return self.tracer.value("ge", self, other)

    def __and__(self, other: Any) -> Value:
        return self.tracer.value("and", self, other)

    def __rand__(self, other: Any) -> Value:
        return self.tracer.value("and", other, self)

    def __or__(self, other: Any) -> Value:
        return self.tracer.value("or", self, other)

    def __ror__(self, other: Any) -> Value:
        return self.tracer.value("or", other, self)

    def __xor__(self, other: Any) -> Value:
        return self.tracer.value("xor", self, other)

    def __rxor__(self, other: Any) -> Value:
        return self.tracer.value("xor", other, self)

    def __invert__(self) -> Value:
        return self.tracer.value("not", self)

    def __pow__(self, other: Any) -> NoReturn:
        self._refuse("** is not there; multiply")

    __rpow__ = __pow__

    def __round__(self, digits: int | None = None) -> NoReturn:
        self._refuse("round() is not there; // rounds down, and assignment to a decimal column rounds half up")

    __hash__ = Traced.__hash__


def constant(value: Any, what: str = "constant") -> Const:
    """A Python constant as an operand; `what` names it in the error."""
    if value is None:
        return Const(types.NULL, None)
    if isinstance(value, bool):
        return Const(types.BOOL, value)
    if isinstance(value, int):
        if not _INT64_MIN <= value <= _INT64_MAX:
            raise TraceError(f"{what} {value} is outside int64 ({_INT64_MIN} to {_INT64_MAX})")
        return Const(types.INT64, int(value))
    if isinstance(value, float):
        return Const(types.FLOAT64, float(value))
    if isinstance(value, str):
        return Const(types.STRING, _valid_utf8(value, what))
    if isinstance(value, decimal.Decimal):
        return _decimal_constant(value, what)
    if isinstance(value, datetime.datetime):
        return Const(types.TIMESTAMP, microseconds(value))
    if hasattr(value, "item") and callable(value.item):  # numpy scalars
        return constant(value.item(), what)
    raise TraceError(
        f"{what} is a {type(value).__name__}; expected a traced value or a bool, int, float, str, "
        f"decimal.Decimal, datetime.datetime or None"
    )


def microseconds(moment: datetime.datetime) -> int:
    """Microseconds since 1970 UTC; a datetime without a zone is UTC, as everywhere in morphspark."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - _EPOCH) // _MICROSECOND


def _valid_utf8(value: str, what: str) -> str:
    try:
        return value.encode().decode()  # a plain str, also from an enum or numpy
    except UnicodeEncodeError as error:
        raise TraceError(f"{what} is not valid Unicode text: {error.reason}") from None


def _decimal_constant(value: decimal.Decimal, what: str) -> Const:
    if not value.is_finite():
        raise TraceError(f"{what} {value} is not a finite decimal")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    unscaled = int("".join(map(str, digits)) or "0") * 10 ** max(0, exponent) * (-1 if sign else 1)
    if len(str(abs(unscaled))) > types.DECIMAL_DIGITS_BETWEEN or scale > types.DECIMAL_DIGITS_BETWEEN:
        raise TraceError(f"{what} {value} has more than {types.DECIMAL_DIGITS_BETWEEN} digits")
    precision = max(len(str(abs(unscaled))), scale, 1)
    return Const(types.decimal(precision, scale), unscaled)
