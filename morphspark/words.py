"""The words of a transaction: what users write inside one as `ms.require`, `ms.when`, `ms.each`, `ms.sum`, …"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from . import blocks, infer, types
from .expr import Value
from .program import Guard
from .trace import Key, Tracer, current_tracer, trace_error


def require(condition: Any, message: str = "failed") -> None:
    """Abort the transaction with `require: message` unless the condition holds."""
    tracer = current_tracer("ms.require")
    if not isinstance(message, str):
        raise trace_error("the message of ms.require is a plain string")
    tracer.operand(message, "the message of ms.require")  # valid text, as it becomes a reason
    operand, kind = tracer.operand(condition, "the condition")
    tracer.check(infer.check_condition, kind, "ms.require")
    tracer.step("require", (operand,), types.NULL, text=message)


def key(value: Any, *, among: Any) -> Key:
    """A key that is one of the candidates, for `table[…]`: the transaction is ordered against their rows only.

    `among` is a list column of the event, or a Python list of keys that the event gives. Using the row of another key
    aborts with `outside: <table>`.
    """
    current_tracer("ms.key")
    if isinstance(value, Key):
        raise trace_error("ms.key(…) inside ms.key(…): name the candidates once")
    return Key(value, among)


def random(*unwanted: Any, **named: Any) -> Value:
    """A float64 in [0, 1), all equally likely: another one for each call and each transaction.

    It follows from the app's seed, the epoch, the transaction's place in it and the call's place in the transaction, so
    that it is the same whatever the schedule, and when an epoch is executed again.
    """
    tracer = current_tracer("ms.random")
    if unwanted or named:
        raise trace_error("ms.random() takes no arguments, it gives [0, 1): write low + (high - low) * ms.random()")
    return tracer.value("random")


def now(*unwanted: Any, **named: Any) -> Value:
    """The wall clock as a timestamp, taken once for the epoch; `Config(clock=…)` gives another one."""
    tracer = current_tracer("ms.now")
    if unwanted or named:
        raise trace_error("ms.now() takes no arguments, it gives microseconds UTC: write ms.now() + 60_000_000")
    return tracer.value("now")


class when:
    """Writes, inserts, deletes and requires inside happen only if the condition holds."""

    def __init__(self, condition: Any):
        self._tracer = current_tracer("ms.when")
        self._operand, kind = self._tracer.operand(condition, "the condition")
        self._tracer.check(infer.check_condition, kind, "ms.when")
        self._outer: list[Guard] = []

    def __enter__(self) -> None:
        _check_block(sys._getframe(1))
        tracer = self._tracer
        step = tracer.step("when", (self._operand,), types.BOOL)
        self._outer.append(tracer.block)
        tracer.block = (*tracer.block, (step.operand, True))

    def __exit__(self, *error: object) -> None:
        self._tracer.block = self._outer.pop()


def _check_block(frame: FrameType) -> None:
    """Refuse what would happen always inside `with ms.when`, though it stands there as if it were conditional."""
    code = frame.f_code
    try:
        found = blocks.mistakes(code, frame.f_lineno - code.co_firstlineno + 1)
    except blocks.NoSource as error:
        raise trace_error(
            f"the source of {code.co_name} can't be read ({error}), so nobody can see whether a `return` or an "
            f"assignment inside `with ms.when(…):` is meant to be conditional; define the function in a file or a "
            f"notebook (not by exec or at a bare prompt), or use ms.where(c, a, b)"
        ) from None
    if found:
        raise trace_error(found[0])


def where(condition: Any, chosen: Any, other: Any) -> Value:
    """`chosen` if the condition holds, else `other`; only that side is evaluated."""
    return current_tracer("ms.where").value("where", condition, chosen, other)


def coalesce(*values: Any) -> Value:
    """The first value that is not null, or null."""
    tracer = current_tracer("ms.coalesce")
    if not values:
        raise trace_error("ms.coalesce needs at least one argument")
    return tracer.value("coalesce", *values)


def absolute(value: Any) -> Value:
    return current_tracer("ms.abs").value("abs", value)


def each(*lists: Any) -> Iterator[Any]:
    """`for k in ms.each(e.keys)`: the body once per element; several lists go in step."""
    tracer = current_tracer("ms.each")
    if not lists:
        raise trace_error("ms.each needs at least one list column")
    return _each(tracer, list(lists))


def _each(tracer: Tracer, lists: list[Any], plain: bool = False) -> Iterator[Any]:
    """`plain`: the body is our own, so there is nothing of the user's to carry out of it."""
    try:
        loop = tracer.open_loop(lists, plain)
        for _ in range(tracer.iterations_of(loop)):
            elements = tracer.enter_body(loop)
            yield elements if len(elements) > 1 else elements[0]
    except GeneratorExit:  # the `for` was left by break, return or an error
        tracer.abandon_loop()
        raise
    tracer.close_loop(loop)


def _reduce(kind: str, values: Any) -> Value:
    """A reduction: over a list column, or over a generator that loops with ms.each."""
    tracer = current_tracer(f"ms.{kind}")
    if isinstance(values, Value):
        values = _each(tracer, [values], plain=True)
    if not isinstance(values, Iterable):
        raise trace_error(f"ms.{kind} takes a list column or a generator: ms.{kind}(… for k in ms.each(e.keys))")
    begin = tracer.step("begin", (), types.NULL, text=kind)
    reduced, skipped = types.NULL, tracer.skipped
    for value in values:
        operand, given = tracer.operand(value)
        try:
            reduced = infer.unify([reduced, given], f"the values of ms.{kind}")
            infer.reduction_type(kind, reduced)
        except infer.Mismatch as error:
            raise trace_error(str(error)) from None
        tracer.step("accumulate", (operand, begin.operand), types.NULL, text=kind)
    if tracer.skipped > skipped:
        reduced = types.UNKNOWN  # its values were not traced, so nobody knows
    return tracer.step("reduce", (begin.operand,), infer.reduction_type(kind, reduced), text=kind)


def total(values: Any) -> Value:
    return _reduce("sum", values)


def count(values: Any) -> Value:
    return _reduce("count", values)


def mean(values: Any) -> Value:
    return _reduce("mean", values)


def any_of(values: Any) -> Value:
    return _reduce("any", values)


def all_of(values: Any) -> Value:
    return _reduce("all", values)


def smallest(*values: Any) -> Value:
    return _extreme("min", values)


def largest(*values: Any) -> Value:
    return _extreme("max", values)


def _extreme(kind: str, values: tuple[Any, ...]) -> Value:
    """With one argument a reduction, with several the smallest or largest of them: as Python's own min and max."""
    tracer = current_tracer(f"ms.{kind}")
    if not values:
        raise trace_error(f"ms.{kind} needs at least one argument")
    return _reduce(kind, values[0]) if len(values) == 1 else tracer.value(kind, *values)
