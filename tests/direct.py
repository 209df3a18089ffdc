"""A second oracle: evaluates a generated tree itself, line by line, in plain Python numbers.

It knows nothing of traces, programs, guards or morphspark.values: if the tracer bends a program, or both engines share
a wrong idea, this one disagrees. Decimals are Fractions here, and a failure is only its code ("overflow", "null", …).
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import functions
import model as m
import scenario

from morphspark.types import FLOAT64, Type

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


OUTSIDE = ("outside",)  # in place of a key that is none of its candidates


class Abort(Exception):
    """With the beginning of the reason: the code, or for a require all of it."""


def _exact(value: Any) -> Any:
    return Fraction(value) if isinstance(value, Decimal) else value


class Direct:
    """The whole stream: state, and one call per epoch."""

    def __init__(self, app: m.AppModel):
        self.app = app
        self.state: dict[str, dict[tuple, dict[str, Any]]] = {table.name: {} for table in app.tables}
        self.returned_types = _returned_types(app)
        self.last_key: tuple | None = None
        self.watermark: Any = None
        self.versions: dict[tuple[str, tuple], list[tuple[int, Any, dict[str, Any]]]] = {}  # (number, time, row) each
        self.number = 0  # of the last transaction
        self.hoisted = {one.name: hoisted(one) for one in app.transactions}

    def load(self, table: str, rows: list[dict[str, Any]]) -> None:
        model = self.app.table(table)
        for row in rows:
            key = tuple(row[name] for name, _ in model.key)
            self.state[table][key] = {name: _exact(row[name]) for name, _ in model.columns}

    def epoch(
        self, events: list[dict[str, Any]]
    ) -> tuple[list[tuple[int, str, str | None, dict[str, Any]]], list[int]]:
        """(row, status, reason, returned) of each event that is not diverted, in transaction order; rows diverted."""
        order, diverted = self._order(events)
        results = [(row, *self._event(events[row])) for row in order]
        keys = [self._key(events[row]) for row in order]
        stamps = [key[0] for key in keys if key and key[0] is not None]
        self.watermark = max([*stamps, *([] if self.watermark is None else [self.watermark])], default=None)
        self.last_key = max(
            [key for key in (*keys, self.last_key) if key is not None and None not in key], default=None
        )
        return results, diverted

    def is_late(self, event: dict[str, Any]) -> bool:
        key = self._key(event)
        return bool(key) and None not in key and self.last_key is not None and key < self.last_key

    def _key(self, event: dict[str, Any]) -> tuple:
        return tuple(event[name] for name in self.app.order_by)

    def _order(self, events: list[dict[str, Any]]) -> tuple[list[int], list[int]]:
        rows = range(len(events))
        broken = [row for row in rows if None in self._key(events[row])]
        whole = sorted((row for row in rows if row not in broken), key=lambda row: self._key(events[row]))
        diverted = [row for row in whole if self.app.late == "divert" and self.is_late(events[row])]
        return [row for row in whole if row not in diverted] + broken, diverted

    def _event(self, event: dict[str, Any]) -> tuple[str, str | None, dict[str, Any]]:
        for name in self.app.order_by:
            if event[name] is None:
                return "aborted", f"null: {name}", {}
        for transaction in self.app.transactions:
            if all(_accepts(event[name], wanted) for name, wanted in transaction.on):
                return self._run(transaction, event)
        return "unmatched", None, {}

    def _run(self, transaction: m.TransactionModel, event: dict[str, Any]) -> tuple[str, str | None, dict[str, Any]]:
        self.number += 1
        key = self._key(event)
        now = None if not key else key[0] if self.watermark is None else max(key[0], self.watermark)
        run = Run(self.app, self.state, event, self.hoisted[transaction.name], self.versions, now)
        try:
            run.block(transaction.body, True)
            given = {name: run.value(value) for name, value in transaction.returns}
            returned = {
                name: convert(given[name], value.type, self.returned_types[name]) for name, value in transaction.returns
            }
        except Abort as abort:
            return "aborted", str(abort), {}
        for (table, key), row in run.writes.items():
            if (table, key) in run.deleted:
                self.versions.pop((table, key), None)
            if row is None:
                self.state[table].pop(key, None)
            else:
                self.state[table][key] = row
                self.versions.setdefault((table, key), []).append((self.number, now, row))
        return "committed", None, returned


def _accepts(value: Any, wanted: Any) -> bool:
    return value is not None and value in (wanted if isinstance(wanted, list) else [wanted])


def _returned_types(app: m.AppModel) -> dict[str, Type]:
    found: dict[str, list[Type]] = {}
    for transaction in app.transactions:
        for name, value in transaction.returns:
            found.setdefault(name, []).append(value.type)
    return {name: m.unify(kinds) for name, kinds in found.items()}


def hoisted(transaction: m.TransactionModel) -> dict[str, tuple[m.When, ...]]:
    """For each bound name the blocks that must hold for its value to be computed.

    A value of a `when` block that is used after the block is computed always; used only inside, only there. Another
    name for a value is no use of it: uses of that name are.
    """
    uses: dict[str, list[tuple[m.When, ...]]] = {}
    places: dict[str, tuple[m.When, ...]] = {}

    def use(root: Any, path: tuple[m.When, ...]) -> None:
        for one, _ in m.walk(root):
            if isinstance(one, m.Var):
                uses.setdefault(one.name, []).append(path)

    for _, value in transaction.returns:
        use(value, ())
    for statement, path in reversed(list(m.statements(transaction.body))):
        if is_alias(statement):
            uses.setdefault(statement.value.name, []).extend(uses.get(statement.name, []))
            continue
        if isinstance(statement, m.Let):
            path = _common([path, *uses.get(statement.name, [path])])
            places[statement.name] = path
        if isinstance(statement, m.Force):
            uses.setdefault(statement.name, []).append(path)
        for part in m.parts(statement):
            use(part, path)
    return places


def is_alias(statement: Any) -> bool:
    return isinstance(statement, m.Let) and isinstance(statement.value, m.Var)


def _common(paths: list[tuple[m.When, ...]]) -> tuple[m.When, ...]:
    shared = []
    for blocks in zip(*paths, strict=False):
        if any(block is not blocks[0] for block in blocks):
            break
        shared.append(blocks[0])
    return tuple(shared)


# --------------------------------------------------------------------------------------------- one transaction


class Run:
    def __init__(
        self,
        app: m.AppModel,
        state: Any,
        event: dict[str, Any],
        places: dict[str, tuple[m.When, ...]],
        versions: Any,
        now: Any,
    ):
        self.app, self.state, self.event, self.places = app, state, event, places
        self.versions, self.now = versions, now
        self.deleted: set[tuple[str, tuple]] = set()
        self.names: dict[str, Any] = {}
        self.holds: dict[int, bool] = {}
        self.writes: dict[tuple[str, tuple], dict[str, Any] | None] = {}

    def block(self, body: tuple[Any, ...], live: bool) -> None:
        for statement in body:
            if is_alias(statement):
                self.names[statement.name] = self.names.get(statement.value.name)  # or nobody uses it
            elif isinstance(statement, m.Let):
                if all(self.holds[id(block)] for block in self.places[statement.name]):
                    self.names[statement.name] = self.bound(statement.value)
            elif isinstance(statement, m.When):
                holds = live and self.needed(statement.condition)
                self.holds[id(statement)] = holds
                self.block(statement.body, holds)
            elif live:
                self.statement(statement)

    def bound(self, value: m.Expr | m.RowOf) -> Any:
        return self.key(value) if isinstance(value, m.RowOf) else self.value(value)

    def statement(self, statement: Any) -> None:
        if isinstance(statement, m.Write):
            value = self.value(statement.value)
            self.store(statement.row.table, self.key(statement.row), statement.column, value, statement.value.type)
        elif isinstance(statement, m.Augment):
            key = self.key(statement.row)
            left = self.read(statement.row.table, key)[statement.column]
            right = self.value(statement.value)
            kinds = statement.type, statement.value.type
            value = operate(statement.op, [left, right], kinds, statement.result)
            self.store(statement.row.table, key, statement.column, value, statement.result)
        elif isinstance(statement, m.Insert):
            self.insert(statement)
        elif isinstance(statement, m.Delete):
            table, key = statement.table, self.keys(statement.keys)
            if self.current(table, key) is not None:
                self.writes[table, key] = None
                self.deleted.add((table, key))
        elif isinstance(statement, m.Require):
            if not self.needed(statement.condition):
                raise Abort(f"require: {statement.message}")
        elif isinstance(statement, m.Each):
            for elements in self.elements(statement.lists):
                self.names.update(zip(statement.names, elements, strict=True))
                self.block(statement.body, True)

    def insert(self, statement: m.Insert) -> None:
        model = self.app.table(statement.table)
        key = self.keys(statement.keys)
        given = {name: (self.value(value), value.type) for name, value in statement.values}
        exists = self.current(statement.table, key) is not None
        row = {}
        for index, (name, kind) in enumerate(model.columns):
            if name in given:
                value, found = given[name]
                row[name] = assign(value, found, kind)
            else:
                row[name] = _exact(model.default[index])
        if exists:
            raise Abort("exists")
        self.writes[statement.table, key] = row

    # -- rows

    def keys(self, parts_: tuple[m.Expr, ...]) -> tuple:
        return tuple(self.value(part) for part in parts_)

    def key(self, row: m.RowOf) -> tuple:
        if row.handle:
            return self.names[row.handle]
        key = self.keys(row.keys or ())
        if row.among is None:
            return key
        if isinstance(row.among, m.Col):
            candidates = [(one,) for one in self.event[row.among.name] or []]
        else:
            candidates = [self.keys(one) for one in row.among]
        return key if None in key or key in candidates else OUTSIDE

    def current(self, table: str, key: tuple) -> dict[str, Any] | None:
        if key is OUTSIDE:
            raise Abort(f"outside: {table}")
        if None in key:
            raise Abort("key")
        return self.writes[table, key] if (table, key) in self.writes else self.state[table].get(key)

    def read(self, table: str, key: tuple) -> dict[str, Any]:
        row, model = self.current(table, key), self.app.table(table)
        if row is not None:
            return row
        if model.default is None:
            raise Abort("missing")
        return {name: _exact(value) for (name, _), value in zip(model.columns, model.default, strict=True)}

    def store(self, table: str, key: tuple, column: str, value: Any, given: Type) -> None:
        self.current(table, key)  # a null key fails first
        stored = assign(value, given, dict(self.app.table(table).columns)[column])
        self.writes[table, key] = {**self.read(table, key), column: stored}

    # -- values

    def needed(self, node: m.Expr) -> Any:
        value = self.value(node)
        if value is None:
            raise Abort("null")
        return value

    def value(self, node: m.Expr) -> Any:
        if isinstance(node, m.Const):
            return _exact(node.value)
        if isinstance(node, m.Col):
            return _exact(self.event[node.name])
        if isinstance(node, m.Var):
            return self.names[node.name]
        if isinstance(node, m.Read):
            return self.read(node.row.table, self.key(node.row))[node.column]
        if isinstance(node, m.Exists):
            return self.current(node.row.table, self.key(node.row)) is not None
        if isinstance(node, m.Window):
            return self.window(node)
        if isinstance(node, m.Where):
            chosen = node.chosen if self.needed(node.condition) else node.other
            return convert(self.value(chosen), chosen.type, node.type)
        if isinstance(node, m.Reduce):
            return self.reduce(node)
        if isinstance(node, m.ReduceOf):
            return self.reduce_of(node)
        if isinstance(node, m.Call):
            return self.call(node)
        assert isinstance(node, m.Op)
        return operate(node.op, [self.value(arg) for arg in node.args], [arg.type for arg in node.args], node.type)

    def call(self, node: m.Call) -> Any:
        given = [self.value(arg) for arg in node.args]
        if None in given:
            raise Abort("null")
        try:
            found = functions.FUNCTIONS[node.name].direct(*given)
        except functions.Failed as failed:
            raise Abort(f"udf: {node.name}: {failed}") from None
        return found if node.part is None else found[node.part]

    def window(self, node: m.Window) -> Any:
        table = node.row.table
        keys = [self.key(node.row)] if node.rows is None else [(one,) for one in self.event[node.rows.name] or []]
        for key in keys:
            self.current(table, key)
        found = []
        for rank, key in enumerate(dict.fromkeys(keys)):
            found += [(number, rank, time, row) for number, time, row in self.versions.get((table, key), [])]
        found.sort(key=lambda one: one[:2])
        if node.span < 0:
            found = found[node.span :]
        else:
            found = [one for one in found if self.now - node.span <= one[2] < self.now]
        values = [row[node.column] for *_, row in found]
        if node.kind in ("first", "last"):
            return values[0 if node.kind == "first" else -1] if values else None
        if node.kind == "nunique":
            return len({"nan" if value != value else value for value in values})
        return reduction(node.kind, values, dict(self.app.table(table).columns)[node.column], node.type)

    def elements(self, lists: tuple[m.Col, ...]) -> list[tuple]:
        columns = [self.event[one.name] or [] for one in lists]
        if len({len(one) for one in columns}) > 1:
            raise Abort("list")
        return [tuple(map(_exact, row)) for row in zip(*columns, strict=True)]

    def reduce(self, node: m.Reduce) -> Any:
        taken = []
        for elements in self.elements(node.lists):
            self.names.update(zip(node.names, elements, strict=True))
            keep = True if node.keep is None else self.value(node.keep)
            value = self.value(node.value)
            if keep is None:
                raise Abort("null")
            if keep and value is None:
                raise Abort("null")
            if keep:
                taken.append(value)
        return reduction(node.kind, taken, node.value.type, node.type)

    def reduce_of(self, node: m.ReduceOf) -> Any:
        values = [self.value(one) for one in node.values]  # the list is there before the reduction begins
        taken = []
        for one, value in zip(node.values, values, strict=True):
            if value is None:
                raise Abort("null")
            taken.append(convert(value, one.type, node.taken))
        return reduction(node.kind, taken, node.taken, node.type)


# ------------------------------------------------------------------------------------------------------ numbers


def fits(value: Any, kind: Type) -> Any:
    """The value, if its type can hold it."""
    if kind.name in ("int64", "timestamp") and not INT64_MIN <= value <= INT64_MAX:
        raise Abort("overflow")
    if kind.name == "decimal" and abs(value) * 10**kind.scale >= 10**38:
        raise Abort("overflow")
    return value


def as_float(value: Any) -> float:
    return float(value)  # an int or a Fraction is rounded once


def convert(value: Any, given: Type, wanted: Type) -> Any:
    if value is None or given == wanted:
        return value
    if wanted == FLOAT64:
        return as_float(value)
    return fits(Fraction(value), wanted) if wanted.name == "decimal" else value


def half_up(value: Fraction, scale: int) -> Fraction:
    shifted = abs(value) * 10**scale
    whole = math.floor(shifted + Fraction(1, 2))
    return Fraction(-whole if value < 0 else whole, 10**scale)


def assign(value: Any, given: Type, column: Type) -> Any:
    if value is None:
        raise Abort("null")
    if column.name != "decimal":
        return convert(value, given, column)
    rounded = half_up(Fraction(value), column.scale)
    if abs(rounded) * 10**column.scale >= 10**column.precision:
        raise Abort("overflow")
    return rounded


def operate(op: str, values: list[Any], kinds: Any, result: Type) -> Any:
    if op == "now":
        return scenario.WALL_US
    if op == "is_null":
        return values[0] is None
    if op == "coalesce":
        found = next(((v, k) for v, k in zip(values, kinds, strict=True) if v is not None), None)
        return None if found is None else convert(*found, result)
    if any(value is None for value in values):
        raise Abort("null")
    if op in ("min", "max"):
        return extreme(op, [convert(v, k, result) for v, k in zip(values, kinds, strict=True)])
    if op in ("==", "!=", "<", "<=", ">", ">="):
        return compared(op, values, kinds)
    if op == "~":
        return not values[0]
    if op == "abs" or (op == "-" and len(values) == 1):
        return fits(abs(values[0]) if op == "abs" else -values[0], result)
    if op in ("&", "|", "^"):
        left, right = values
        return {"&": left and right, "|": left or right, "^": left != right}[op]
    return arithmetic(op, values, kinds, result)


def arithmetic(op: str, values: list[Any], kinds: Any, result: Type) -> Any:
    left, right = values
    if result.name == "string":
        return left + right
    if result.name == "decimal" and op not in ("*", "/"):  # both sides get the same scale before anything else
        scale = max(kinds[0].scale, kinds[1].scale)
        for side in (left, right):
            if abs(side) * 10**scale >= 10**38:
                raise Abort("overflow")
    if op in ("/", "//", "%") and right == 0:
        raise Abort("division")
    if result == FLOAT64:
        left, right = as_float(left), as_float(right)
        return {"+": left.__add__, "-": left.__sub__, "*": left.__mul__, "/": left.__truediv__,
                "//": left.__floordiv__, "%": left.__mod__}[op](right)  # fmt: skip
    if op == "/":
        # The dividend is widened first, in 128 bits; the quotient is rounded to its last digit.
        fits(Fraction(left) * 10 ** kinds[1].scale, result)
        return fits(half_up(Fraction(left) / Fraction(right), result.scale), result)
    exact = {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
             "//": lambda: left // right, "%": lambda: left % right}[op]()  # fmt: skip
    return fits(Fraction(exact) if result.name == "decimal" else exact, result)


def order(left: Any, right: Any) -> int:
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    if isinstance(left, float) and (math.isnan(left) or math.isnan(right)):
        return math.isnan(left) - math.isnan(right)
    return (left > right) - (left < right)


def compared(op: str, values: list[Any], kinds: Any) -> bool:
    left, right = map(as_float, values) if FLOAT64 in kinds else values
    sign = order(left, right)
    return {"==": sign == 0, "!=": sign != 0, "<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[op]


def extreme(op: str, values: list[Any]) -> Any:
    best = values[0]
    for value in values:
        if order(value, best) == (-1 if op == "min" else 1):
            best = value
    return best


def reduction(kind: str, values: list[Any], given: Type, result: Type) -> Any:
    if kind == "count":
        return len(values)
    if kind in ("any", "all"):
        return any(values) if kind == "any" else all(values)
    if kind == "sum":
        zero = Fraction(0) if given.name == "decimal" else 0
        return float_sum(values) if given == FLOAT64 else fits(sum(values, zero), result)
    if not values:
        return None
    if kind in ("min", "max"):
        return extreme(kind, values)
    if given == FLOAT64:
        return float_sum(values) / len(values)
    if given.name == "decimal":
        return fits(half_up(fits(sum(values), result) / len(values), result.scale), result)
    return float(sum(values)) / len(values)


def float_sum(values: list[float]) -> float:
    """The exact sum, rounded once."""
    if any(not math.isfinite(value) for value in values):
        return sum(value for value in values if not math.isfinite(value))
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
