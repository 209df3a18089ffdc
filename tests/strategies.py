"""What Hypothesis draws: whole apps (model.py) and epochs of events for them.

Keys come from small domains, so that rows are shared and keys alias all the time. Values are mostly small, with
nulls, NaN, both zeros, infinities and the ends of int64 among them. Where transactions shall run in parts, most stories
have more keys and fewer values that abort: an alias or an early failure leaves nothing to cut. A cell is one drawn byte
that picks from its type's domain: fast to draw, and shrinking moves towards the plainest values.
"""

from __future__ import annotations

import datetime
import itertools
import random
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from typing import Any

import functions
import model as m
import pyarrow as pa
import scenario
from hypothesis import strategies as st

import morphspark as ms
from morphspark.reference import open_reference
from morphspark.strategy import NAMES
from morphspark.testing import Schedule
from morphspark.types import BOOL, FLOAT64, INT64, STRING, TIMESTAMP, Type, decimal, list_of, to_arrow

SCHEDULES_PER_STORY = 3
MONEY, FINE = decimal(9, 2), decimal(18, 6)
VALUE_TYPES = (INT64, STRING, FLOAT64, BOOL, MONEY, TIMESTAMP, FINE)
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
YEAR_2000 = 946_684_800_000_000

# Plain values first: shrinking goes there. Each domain is repeated to spread the rare ones thin.
_PLAIN = {
    INT64: [0, 1, 2, 3, -1, 7, 10, -4],
    STRING: ["a", "b", "", "ab", "é", "c"],
    FLOAT64: [0.0, 1.0, 0.5, -1.5, 2.0, 0.1],
    BOOL: [False, True],
    TIMESTAMP: [YEAR_2000, YEAR_2000 + 1, 0, -1],
    MONEY: [Decimal("0.00"), Decimal("1.00"), Decimal("0.01"), Decimal("-2.50"), Decimal("10.05")],
    FINE: [Decimal("0.000000"), Decimal("1.000000"), Decimal("0.333333"), Decimal("-0.000005")],
}
_RARE = {
    INT64: [None, INT64_MAX, INT64_MIN, 2**53 + 1, None, -(2**31), 127],
    STRING: [None, "\U0001f600", "a\x00b", "zz" * 20, None, "\uffff", "e\u0301"],
    FLOAT64: [None, float("nan"), -0.0, float("inf"), float("-inf"), 1e308, 5e-324, 1e16, None],
    BOOL: [None],
    TIMESTAMP: [None, 253_402_300_799_999_999, -62_135_596_800_000_000],
    MONEY: [None, Decimal("9999999.99"), Decimal("-9999999.99"), Decimal("0.05")],
    FINE: [None, Decimal("999999999999.999999"), Decimal("-999999999999.999999"), Decimal("0.500000")],
}
# Constants may have more digits than columns: up to what 128 bits hold.
HUGE = [
    Decimal("9" * 38),
    Decimal("-" + "9" * 38),
    Decimal("1e-38"),
    Decimal("-123456789012345678.0123456789012345678"),
]
DOMAINS = {kind: _PLAIN[kind] * (24 // len(_PLAIN[kind])) + _RARE[kind] for kind in VALUE_TYPES}
KEYS = {
    INT64: [1, 2, 3, 1, 2, 0, -1, *[1, 2, 3] * 10, None, INT64_MAX, INT64_MIN],
    STRING: ["a", "b", "c", "a", "b", "", "é", *["a", "b", "c"] * 10, None, "zz" * 20, "a\x00b"],
}
SIZES = [0, 1, 2, 3, 2, 1, 2]


@dataclass(frozen=True)
class Domains:
    """What cells are picked from, by type."""

    keys: dict[Type, list[Any]]
    values: dict[Type, list[Any]]


USUAL = Domains(KEYS, DOMAINS)


@cache
def calm(keys: int) -> Domains:
    """So many keys, and few of the values that make a transaction abort."""
    names = {INT64: list(range(1, keys + 1)), STRING: list("abcdefghijklmnop"[:keys])}
    return Domains(
        {kind: names[kind] * (120 // keys) + KEYS[kind][-3:] for kind in names},
        {kind: _PLAIN[kind] * (200 // len(_PLAIN[kind])) + _RARE[kind] for kind in VALUE_TYPES},
    )


KEY_COLUMNS = {"k1": INT64, "k2": INT64, "s1": STRING, "s2": STRING, "k3": INT64, "s4": STRING}
EVENT_COLUMNS: dict[str, Type] = {
    **KEY_COLUMNS,
    "kind": STRING,
    "b1": BOOL, "b2": BOOL, "i1": INT64, "i2": INT64, "f1": FLOAT64, "f2": FLOAT64, "s3": STRING,
    "t1": TIMESTAMP, "t2": TIMESTAMP, "d1": MONEY, "d2": FINE,
    "lk1": list_of(INT64), "lk2": list_of(INT64), "ls1": list_of(STRING), "li1": list_of(INT64),
    "lf1": list_of(FLOAT64), "lb1": list_of(BOOL), "ld1": list_of(MONEY), "lt1": list_of(TIMESTAMP),
}  # fmt: skip
KINDS = ["x", "y", "z", "x", "y", None]
ORDER_TYPES = {"int64": INT64, "timestamp": TIMESTAMP, "string": STRING, "decimal": decimal(6, 2)}
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
RETURN_NAMES = ("r_num", "r_num2", "r_int", "r_text", "r_flag", "r_time")


@cache
def _upto(largest: int) -> st.SearchStrategy[int]:
    return st.integers(0, largest)


class Chooser:
    """Draws small decisions; 0 is always the plainest."""

    def __init__(self, draw: Any):
        self._draw = draw

    def below(self, count: int) -> int:
        return self._draw(_upto(count - 1)) if count > 1 else 0

    def pick(self, options: Any) -> Any:
        return options[self.below(len(options))]

    def maybe(self, one_in: int) -> bool:
        return self.below(one_in) == one_in - 1

    def bytes(self, size: int) -> bytes:
        return self._draw(st.binary(min_size=size, max_size=size)) if size else b""


# -------------------------------------------------------------------------------------------------------- apps


@st.composite
def apps(draw: Any) -> m.AppModel:
    return AppMaker(Chooser(draw)).app()


Cell = tuple[m.RowOf, str, Type]  # a column of a row, and its type


class AppMaker:
    def __init__(self, choose: Chooser, parts: bool = False):
        self.choose = choose
        self.parts = parts  # its transactions may run in parts: no windows, no functions, no keys that state tells
        self.loops = True  # in this transaction; one with a loop runs as a whole
        self.elements: set[str] = set()  # names of elements of lists
        self.tables: tuple[m.TableModel, ...] = ()
        self.names: list[tuple[str, Type]] = []  # bound names in scope
        self.handles: list[m.RowOf] = []
        self.counter = 0
        self.clock: Type | None = None  # of the first order column
        self.forced = False  # the direct evaluation, which knows of no steps, can follow

    def app(self) -> m.AppModel:
        choose = self.choose
        order = choose.pick([("ts",), ("ts", "seq"), (), ("ts",)])
        order_types = {"ts": ORDER_TYPES[choose.pick(["int64", "timestamp", "string", "decimal", "int64"])]}
        order_types["seq"] = choose.pick([INT64, STRING])
        events = {**EVENT_COLUMNS, **{name: order_types[name] for name in order}}
        self.clock = order_types["ts"] if order else None
        self.tables = tuple(self.table(index) for index in range(1 + choose.below(3)))
        forced = self.forced = not choose.maybe(5)
        count = 1 + choose.below(3)
        transactions = tuple(self.transaction(i, i == count - 1, forced) for i in range(count))
        late = choose.pick(["admit", "divert", "admit", "fail", *(["admit", "divert"] * 3 if self.parts else [])])
        app = m.AppModel(order, events, choose.maybe(3), late, self.tables, transactions, forced)
        used = m.columns_used(app)
        return replace(app, used=used, events={name: events[name] for name in sorted(used)})

    def table(self, index: int) -> m.TableModel:
        choose = self.choose
        key = choose.pick(
            [
                (("key", INT64),),
                (("key", STRING),),
                (("x", INT64), ("y", STRING)),
                (("p", STRING), ("q", STRING), ("r", INT64)),
            ]
        )
        kinds = [INT64 if index == 0 else choose.pick(VALUE_TYPES)]
        kinds += [choose.pick(VALUE_TYPES) for _ in range(choose.below(3))]
        columns = tuple((f"c{i}", kind) for i, kind in enumerate(kinds))
        default = None if choose.maybe(20 if self.parts else 5) else tuple(choose.pick(_PLAIN[kind]) for kind in kinds)
        return m.TableModel(f"t{index}", key, columns, default)

    def transaction(self, index: int, last: bool, forced: bool) -> m.TransactionModel:
        choose = self.choose
        self.names, self.handles = [], []
        self.loops = not self.parts or choose.maybe(3)
        on = choose.pick(self.filters(index, last))
        body = self.linked() if self.parts else self.body(2, 1 + choose.below(5))
        returns = []
        for name in RETURN_NAMES[: choose.below(len(RETURN_NAMES) + 1)]:
            if not choose.maybe(3):
                returns.append((name, self.returned(name)))
        if forced:
            body = _with_forced(body, [value for _, value in returns])
        return m.TransactionModel(f"tx{index}", on, body, tuple(returns))

    def filters(self, index: int, last: bool) -> list[Any]:
        """What events a transaction may be for. In parts, all transactions of an app shall have some."""
        if self.parts:
            kind = ("kind", "xyz"[index])
            return [(), (), (), (kind,)] if last else [(kind,), (kind,), (("i1", [0, 1, 2, 3]),)]
        return [
            (),
            (("kind", "x"),),
            (),
            (("kind", ["x", "y"]),),
            (),
            (("kind", "y"), ("b1", True)),
            (("i1", [0, 1, 2, 3]),),
            (("kind", ["z", "x"]), ("f1", 0.5)),
        ]

    def returned(self, name: str) -> m.Expr:
        if name.startswith("r_num"):
            kind = self.choose.pick([INT64, FLOAT64, MONEY, FINE])
        else:
            kind = {"r_int": INT64, "r_text": STRING, "r_flag": BOOL, "r_time": TIMESTAMP}[name]
        bound = [one for one in self.names if _category(one[1]) == _category(kind)]
        if bound and self.choose.maybe(2):
            return m.Var(*reversed(self.choose.pick(bound)))
        return self.expr(kind, 2)

    # -- statements on rows that have to do with each other

    def linked(self) -> tuple[Any, ...]:
        """Two to four rows, most of them changed by what the one before it holds.

        Some are tested after others were changed: a transaction then fails when others may have read what it wrote.
        """
        choose = self.choose
        before, body = None, []
        for place in range(choose.pick([2, 3, 2, 4])):
            cell = self.cell_at(place)
            if place and choose.maybe(2):
                body.append(self.doubt(cell))
            if not place or not choose.maybe(5):
                body.append(self.change(cell, before))
            if choose.maybe(5):
                body.append(self.statement(1))
            before = cell
        if self.loops and choose.maybe(2):
            body.append(self.each(1))
        return tuple(body)

    def cell_at(self, place: int) -> Cell:
        """Of a row that other columns name than those of the places before it."""
        if self.choose.maybe(8):
            return self.cell()
        table = self.choose.pick(self.tables)
        column, kind = self.choose.pick(table.columns)
        key = []
        for _, one in table.key:
            names = [name for name, found in KEY_COLUMNS.items() if found == one]
            key.append(m.Col(one, names[place % len(names)]))
        return m.RowOf(table.name, tuple(key)), column, kind

    def doubt(self, cell: Cell) -> m.Require:
        """That a row is as almost all are."""
        row, column, kind = cell
        held = m.Read(kind, row, column)
        other = self.choose.pick([self.column(kind), _constant(kind, self.choose.pick(_PLAIN[kind]))])
        if kind != BOOL and self.choose.maybe(4):
            return m.Require(m.Op(BOOL, ">=", (held, _constant(kind, min(_PLAIN[kind])))), "too low")
        return m.Require(m.Op(BOOL, "!=", (held, other)), "doubtful")

    def change(self, cell: Cell, before: Cell | None) -> Any:
        row, column, kind = cell
        value = self.column(kind) if before is None or self.choose.maybe(5) else self.carried(kind, before)
        if kind.is_number and not self.choose.maybe(3):
            op = self.choose.pick(["+", "-"])
            return m.Augment(row, column, kind, op, m.arithmetic_type(op, kind, value.type), value)
        return m.Write(row, column, kind, value)

    def carried(self, kind: Type, before: Cell) -> m.Expr:
        """A value that what the row before holds decides, and that grows no further than columns do."""
        row, column, found = before
        held, other = m.Read(found, row, column), self.column(kind)
        if _category(found) == _category(kind) and kind != BOOL:
            return m.Op(m.unify([found, other.type]), self.choose.pick(["min", "max"]), (held, other))
        same = m.Op(BOOL, "==", (held, self.column(found)))
        return m.Where(kind, same, m.Const(kind, _PLAIN[kind][1]), other)

    # -- statements

    def body(self, depth: int, count: int) -> tuple[Any, ...]:
        return tuple(self.statement(depth) for _ in range(count))

    def statement(self, depth: int) -> Any:
        choose = self.choose
        makers = [self.write, self.let, self.augment, self.handle, self.write, self.let, self.augment]
        makers += [self.delete, self.insert, self.require]
        if depth:
            blocks = [lambda: self.when(depth), lambda: self.each(depth)]
            makers += blocks * 2 if self.loops else blocks[:1] * 2
        return choose.pick(makers)()

    def write(self) -> m.Write:
        row, column, kind = self.cell()
        return m.Write(row, column, kind, self.assignable(kind))

    def augment(self) -> Any:
        row, column, kind = self.cell()
        op = self.choose.pick({"string": ["+"], "timestamp": ["+", "-"]}.get(kind.name, ["+", "-", "*", "//", "%"]))
        if kind == BOOL:
            return m.Write(row, column, kind, self.expr(BOOL, 2))
        value = self.expr(INT64 if kind == TIMESTAMP else kind, 1)
        result = m.arithmetic_type(op, kind, value.type)
        if result is None or (kind == TIMESTAMP and result != TIMESTAMP):
            return m.Write(row, column, kind, value if value.type == kind else self.leaf(kind))
        return m.Augment(row, column, kind, op, result, value)

    def let(self) -> m.Let:
        value = self.traced(self.choose.pick(VALUE_TYPES), 2)
        return m.Let(self.bind(value.type), value)

    def handle(self) -> m.Let:
        row = self.row(self.choose.pick(self.tables), plain=True)
        self.counter += 1
        bound = m.RowOf(row.table, None, f"h{self.counter}")
        self.handles.append(bound)
        return m.Let(bound.handle, row)

    def require(self) -> m.Require:
        return m.Require(self.expr(BOOL, 2), self.choose.pick(["no", "not enough", "ünï"]))

    def insert(self) -> m.Insert:
        table = self.choose.pick(self.tables)
        columns = table.columns
        if table.default is not None:
            columns = tuple(one for one in columns if not self.choose.maybe(3))
        return m.Insert(table.name, self.key(table), tuple((n, self.assignable(k)) for n, k in columns))

    def delete(self) -> m.Delete:
        table = self.choose.pick(self.tables)
        return m.Delete(table.name, self.key(table))

    def when(self, depth: int) -> m.When:
        condition = self.expr(BOOL, 2)
        return m.When(condition, self.body(depth - 1, self.choose.below(4)))

    def each(self, depth: int) -> m.Each:
        lists = self.lists()
        names, handles = list(self.names), list(self.handles)
        bound = tuple(self.bind(one.type.element) for one in lists)
        self.elements.update(bound)
        body = self.body(depth - 1, 1 + self.choose.below(3))
        self.names, self.handles = names, handles
        return m.Each(lists, bound, body)

    def lists(self) -> tuple[m.Col, ...]:
        names = [name for name, kind in EVENT_COLUMNS.items() if kind.element is not None]
        count = self.choose.pick([1, 1, 2, 1, 3])
        return tuple(m.Col(EVENT_COLUMNS[name], name) for name in (self.choose.pick(names) for _ in range(count)))

    def bind(self, kind: Type) -> str:
        self.counter += 1
        name = f"v{self.counter}"
        self.names.append((name, kind))
        return name

    # -- rows

    def cell(self) -> Cell:
        table = self.choose.pick(self.tables)
        column, kind = self.choose.pick(table.columns)
        return self.row(table), column, kind

    def row(self, table: m.TableModel, plain: bool = False) -> m.RowOf:
        handles = [one for one in self.handles if one.table == table.name]
        if handles and not plain and self.choose.maybe(2):
            return self.choose.pick(handles)
        if not self.parts and self.choose.maybe(6):
            return m.RowOf(table.name, self.key(table), among=self.among(table))
        return m.RowOf(table.name, self.key(table, plain))

    def among(self, table: m.TableModel) -> Any:
        """Candidates that the event names."""
        element = dict(table.key).get("key")
        if element is not None and self.choose.maybe(2):
            return m.Col(
                list_of(element), self.choose.pick([n for n, k in EVENT_COLUMNS.items() if k == list_of(element)])
            )
        return tuple(
            tuple(self.candidate(kind) for _, kind in table.key) for _ in range(self.choose.pick([2, 1, 3, 0]))
        )

    def candidate(self, kind: Type) -> m.Expr:
        if self.choose.maybe(3):
            return m.Const(kind, self.choose.pick([*KEYS[kind][:3], None]))
        name = self.choose.pick([name for name, one in KEY_COLUMNS.items() if one == kind])
        if kind == STRING and self.choose.maybe(4):
            return m.Op(STRING, "+", (m.Col(STRING, name), m.Const(STRING, "b")))
        return m.Col(kind, name)

    def key(self, table: m.TableModel, plain: bool = False) -> tuple[m.Expr, ...]:
        return tuple(self.key_part(kind, plain) for _, kind in table.key)

    def key_part(self, kind: Type, plain: bool) -> m.Expr:
        choose = self.choose
        bound = [one for one in self.names if one[1] == kind and (not self.parts or one[0] in self.elements)]
        if bound and choose.maybe(3):
            return m.Var(*reversed(choose.pick(bound)))
        if choose.maybe(4):
            return m.Const(kind, choose.pick(KEYS[kind][:3]))
        if not plain and not self.parts and choose.maybe(8):
            return self.expr(kind, 1)
        return m.Col(kind, choose.pick([name for name, one in KEY_COLUMNS.items() if one == kind]))

    # -- expressions

    def assignable(self, kind: Type) -> m.Expr:
        """A value that may be stored in a column of this type: other numbers too."""
        if kind == FLOAT64 and self.choose.maybe(4):
            return self.expr(self.choose.pick([INT64, MONEY]), 1)
        if kind.name == "decimal" and self.choose.maybe(4):
            return self.expr(INT64, 1)
        return self.expr(kind, 2)

    def expr(self, kind: Type, depth: int) -> m.Expr:
        if depth == 0 or self.choose.maybe(4):
            return self.leaf(kind)
        makers = [
            self.operator,
            self.where,
            self.operator,
            self.reduce,
            self.coalesce,
            self.extreme,
            self.unary,
            self.call,
        ]
        made = self.choose.pick(makers)(kind, depth - 1) if depth else None
        return made if made is not None else self.leaf(kind)

    def leaf(self, kind: Type, depth: int = 0) -> m.Expr:
        choose = self.choose
        bound = [one for one in self.names if _category(one[1]) == _category(kind)]
        cells = [(t, c, k) for t in self.tables for c, k in t.columns if _category(k) == _category(kind)]
        if kind == TIMESTAMP and choose.maybe(6):
            return m.Op(TIMESTAMP, "now", ())
        if kind == FLOAT64 and not self.forced and choose.maybe(4):
            return m.Op(FLOAT64, "random", ())
        which = choose.below(6)
        if which == 4 and choose.maybe(2) and (window := self.window(kind)) is not None:
            return window
        if which in (1, 4) and cells:
            table, column, found = choose.pick(cells)
            return m.Read(found, self.row(table), column)
        if which in (2, 5) and bound:
            return m.Var(*reversed(choose.pick(bound)))
        if which == 3:
            values = [one for one in DOMAINS[kind] if one is not None]
            return _constant(kind, choose.pick(values + (HUGE if kind.name == "decimal" else [])))
        return self.column(kind)

    def window(self, kind: Type) -> m.Expr | None:
        if self.parts:
            return None
        choose = self.choose
        table = choose.pick(self.tables)
        possible = [
            (column, found, aggregate)
            for column, found in table.columns
            for aggregate in _aggregates(found)
            if (result := m.window_type(aggregate, found)).scale <= 38 and _category(result) == _category(kind)
        ]
        if not possible:
            return None
        column, found, aggregate = choose.pick(possible)
        timed = self.clock == TIMESTAMP
        span = choose.pick([-2, -1, -5] if self.clock not in (INT64, TIMESTAMP) else [3, -2, 1, 8, -1])
        result = m.window_type(aggregate, found)
        element = dict(table.key).get("key")
        if element is not None and choose.maybe(3):
            names = [name for name, one in EVENT_COLUMNS.items() if one == list_of(element)]
            row = m.RowOf(table.name, (m.Var(element, "one"),))
            return m.Window(result, aggregate, row, column, span, timed, m.Col(list_of(element), choose.pick(names)))
        return m.Window(result, aggregate, self.row(table), column, span, timed)

    def column(self, kind: Type) -> m.Expr:
        return m.Col(kind, self.choose.pick([name for name, one in EVENT_COLUMNS.items() if one == kind]))

    def traced(self, kind: Type, depth: int) -> m.Expr:
        """An expression that is not a bare constant: Python would compute with two of those by itself."""
        made = self.expr(kind, depth)
        return self.column(kind) if isinstance(made, m.Const) else made

    def operator(self, kind: Type, depth: int) -> m.Expr | None:
        choose = self.choose
        if kind == BOOL:
            return self.condition(depth)
        if kind == STRING:
            return m.Op(STRING, "+", (self.traced(STRING, depth), self.expr(STRING, depth)))
        if kind == TIMESTAMP:
            pair = (self.traced(TIMESTAMP, depth), self.expr(INT64, depth))
            return m.Op(TIMESTAMP, *choose.pick([("+", pair), ("-", pair), ("+", pair[::-1])]))
        if kind == INT64:
            if choose.maybe(8):
                return m.Op(INT64, "-", (self.traced(TIMESTAMP, depth), self.expr(TIMESTAMP, depth)))
            pair = (self.traced(INT64, depth), self.expr(INT64, depth))
            return m.Op(INT64, choose.pick(["+", "-", "*", "//", "%"]), choose.pick([pair, pair[::-1]]))
        if kind == FLOAT64 and choose.maybe(4):
            return m.Op(FLOAT64, "/", (self.traced(INT64, depth), self.expr(INT64, depth)))
        others = [INT64, FLOAT64, MONEY] if kind == FLOAT64 else [INT64, MONEY, FINE]
        pair = (self.traced(kind, depth), self.expr(choose.pick(others), depth))
        pair = choose.pick([pair, pair[::-1]])
        op = choose.pick(["+", "-", "*", "/", "//", "%"])
        result = m.arithmetic_type(op, pair[0].type, pair[1].type)
        return None if result is None or _category(result) != _category(kind) else m.Op(result, op, pair)

    def condition(self, depth: int) -> m.Expr:
        choose = self.choose
        which = choose.below(7)
        if which == 0:
            return m.Op(BOOL, choose.pick(["&", "|", "^"]), (self.traced(BOOL, depth), self.expr(BOOL, depth)))
        if which in (1, 6):
            return m.Exists(BOOL, self.row(choose.pick(self.tables)))
        if which == 2:
            return m.Op(BOOL, "is_null", (self.traced(choose.pick(VALUE_TYPES), depth),))
        if which == 3:
            numbers = [INT64, FLOAT64, MONEY, FINE]
            pair = (self.traced(choose.pick(numbers), depth), self.expr(choose.pick(numbers), depth))
            return m.Op(BOOL, choose.pick(COMPARISONS), pair)
        kind = choose.pick(VALUE_TYPES)
        pair = (self.traced(kind, depth), self.expr(kind, depth))
        return m.Op(BOOL, choose.pick(COMPARISONS[:2] if kind == BOOL else COMPARISONS), pair)

    def unary(self, kind: Type, depth: int) -> m.Expr | None:
        if kind == BOOL:
            return m.Op(BOOL, "~", (self.traced(BOOL, depth),))
        if not kind.is_number:
            return None
        arg = self.traced(kind, depth)
        return m.Op(arg.type, self.choose.pick(["-", "abs"]), (arg,))

    def where(self, kind: Type, depth: int) -> m.Expr:
        condition, chosen, other = self.expr(BOOL, depth), self.expr(kind, depth), self.alike(kind, depth)
        return m.Where(m.unify([chosen.type, other.type]), condition, chosen, other)

    def coalesce(self, kind: Type, depth: int) -> m.Expr:
        args = (self.expr(kind, depth), *(self.alike(kind, depth) for _ in range(1 + self.choose.below(2))))
        return m.Op(m.unify([arg.type for arg in args]), "coalesce", args)

    def extreme(self, kind: Type, depth: int) -> m.Expr | None:
        if kind == BOOL:
            return None
        args = (self.expr(kind, depth), *(self.alike(kind, depth) for _ in range(1 + self.choose.below(2))))
        return m.Op(m.unify([arg.type for arg in args]), self.choose.pick(["min", "max"]), args)

    def call(self, kind: Type, depth: int) -> m.Expr | None:
        """A user function that gives this type."""
        if self.parts:
            return None
        found = [
            (name, part, one)
            for name, one in functions.FUNCTIONS.items()
            for part, result in enumerate(one.results)
            if _category(result) == _category(kind)
        ]
        name, part, one = self.choose.pick(found)
        args = tuple(self.expr(wanted, depth) for wanted in one.given)
        return m.Call(one.results[part], name, args, part if len(one.results) > 1 else None)

    def alike(self, kind: Type, depth: int) -> m.Expr:
        """An expression that can stand beside one of this type without changing the kind of the result."""
        if kind == FLOAT64:
            return self.expr(self.choose.pick([FLOAT64, INT64, MONEY]), depth)
        if kind.name == "decimal":
            return self.expr(self.choose.pick([MONEY, INT64, FINE]), depth)
        return self.expr(kind, depth)

    def reduce(self, kind: Type, depth: int) -> m.Expr | None:
        if not self.loops:
            return None
        choose = self.choose
        kinds = {"bool": ["any", "all"], "int64": ["sum", "count", "min", "max"], "string": ["min", "max"],
                 "timestamp": ["min", "max"], "float64": ["sum", "mean", "min", "max"],
                 "decimal": ["sum", "mean", "min", "max"]}[kind.name]  # fmt: skip
        reduction = choose.pick(kinds)
        if choose.maybe(4):
            return self.reduce_of(reduction, kind, depth)
        lists = self.lists()
        names, handles = list(self.names), list(self.handles)
        bound = tuple(self.bind(one.type.element) for one in lists)
        wanted = choose.pick(VALUE_TYPES) if reduction == "count" else kind
        own = [(n, t) for n, t in zip(bound, (one.type.element for one in lists), strict=True) if t == wanted]
        value = m.Var(*reversed(choose.pick(own))) if own and choose.maybe(2) else self.expr(wanted, depth)
        keep = self.expr(BOOL, depth) if choose.maybe(4) else None
        self.names, self.handles = names, handles
        result = m.reduced_type(reduction, value.type)
        if result.scale > 38 or _category(result) != _category(kind):
            return None
        return m.Reduce(result, reduction, lists, bound, value, keep)

    def reduce_of(self, reduction: str, kind: Type, depth: int) -> m.Expr | None:
        typed = reduction in ("any", "all", "count") or (reduction, kind) == ("sum", INT64)
        count = self.choose.pick([1, 2, 3, 0] if typed else [1, 2, 3])
        made = m.ReduceOf(kind, reduction, tuple(self.alike(kind, depth) for _ in range(count)))
        result = m.reduced_type(reduction, made.taken)
        if result.scale > 38 or _category(result) != _category(kind):
            return None
        return replace(made, type=result)


def _aggregates(kind: Type) -> list[str]:
    ordered = [] if kind == BOOL else ["min", "max"]
    return [*(["sum", "mean"] if kind.is_number else []), *ordered, "count", "first", "last", "nunique"]


def _category(kind: Type) -> str:
    return kind.name if kind.element is None else str(kind)


def _constant(kind: Type, value: Any) -> m.Const:
    """Decimal constants have the type of their digits."""
    if isinstance(value, Decimal):
        digits = value.as_tuple()
        scale = -digits.exponent
        return m.Const(decimal(max(len(digits.digits), scale, 1), scale), value)
    return m.Const(kind, value)


def _with_forced(body: tuple[Any, ...], returned: list[m.Expr]) -> tuple[Any, ...]:
    """Put a use that counts after every Let whose name is used in a side of ms.where, unless nothing in it can fail."""
    roots = [part for statement, _ in m.statements(body) for part in m.parts(statement)] + returned
    lazy = {one.name for root in roots for one, side in m.walk(root) if side and isinstance(one, m.Var)}

    def forced(block: tuple[Any, ...]) -> tuple[Any, ...]:
        out: list[Any] = []
        for statement in block:
            if isinstance(statement, m.When | m.Each):
                statement = replace(statement, body=forced(statement.body))
            out.append(statement)
            if isinstance(statement, m.Let) and statement.name in lazy:
                out += _uses(statement)
        return tuple(out)

    return forced(body)


def _uses(bound: m.Let) -> list[Any]:
    if isinstance(bound.value, m.Expr):
        return [m.Force(bound.name)]
    if all(isinstance(one, m.Const | m.Col | m.Var) for one, _ in m.walk(bound.value)):
        return []
    touched = m.Exists(BOOL, m.RowOf(bound.value.table, None, bound.name))
    return [m.Require(m.Op(BOOL, "|", (touched, m.Const(BOOL, True))), "never")]


# ------------------------------------------------------------------------------------------------------ epochs


@dataclass(frozen=True)
class Epoch:
    values: dict[str, list[Any]]  # the used columns, as domain values
    kinds: dict[str, Type | None]  # None: all null, and without a type
    table: pa.Table  # the same in some Arrow encoding, with columns that nobody uses


def epoch(choose: Chooser, app: m.AppModel, number: int, rows: int, untyped: bool, domains: Domains) -> Epoch:
    values, kinds, arrays = {}, {}, {}
    for name, kind in app.events.items():
        cells = choose.bytes(rows * (4 if kind.element is not None else 1))
        values[name] = _column_values(app, name, kind, cells, number, domains)
        kinds[name] = kind
        if untyped and choose.maybe(8) and name not in app.order_by:
            values[name], kinds[name] = [None] * rows, None
        arrays[name] = encoded(choose, values[name], kinds[name])
    for name in ("p1", "p2")[: choose.below(3)]:
        arrays[name] = _passenger(choose, rows)
    return Epoch(values, kinds, pa.table(arrays))


def _column_values(app: m.AppModel, name: str, kind: Type, cells: bytes, number: int, domains: Domains) -> list[Any]:
    if name in app.order_by:
        return [_order_value(kind, byte, number) for byte in cells]
    if name == "kind":
        return [KINDS[byte % len(KINDS)] for byte in cells]
    if kind.element is None:
        domain = domains.keys[kind] if name in KEY_COLUMNS else domains.values[kind]
        return [domain[byte % len(domain)] for byte in cells]
    domain = (domains.keys if name in ("lk1", "lk2", "ls1") else domains.values)[kind.element]
    return [_list_value(domain, row + number, cells[4 * row : 4 * row + 4]) for row in range(len(cells) // 4)]


def _list_value(domain: list[Any], row: int, cells: bytes) -> list[Any] | None:
    """Lists of one event are mostly of one length."""
    if cells[0] >= 250:
        return None
    size = SIZES[cells[0] % len(SIZES)] if cells[0] >= 240 else SIZES[row % len(SIZES)]
    return [domain[byte % len(domain)] for byte in cells[1 : 1 + size]]


def _order_value(kind: Type, byte: int, number: int) -> Any:
    """Epochs overlap a little, so that some events are late and many keys are equal."""
    if byte >= 250:
        return None
    step = number * 4 + byte % 9
    if kind == STRING:
        return f"t{step:03d}"
    if kind == TIMESTAMP:
        return YEAR_2000 + step
    return Decimal(step - 3).scaleb(-2) if kind.name == "decimal" else step - 3


def initial_rows(choose: Chooser, table: m.TableModel, domains: Domains) -> pa.Table | None:
    """Rows to load: distinct keys, no nulls."""
    rows = {}
    for _ in range(choose.pick((0, 4, 9, 16))):
        key = tuple(choose.pick([one for one in domains.keys[kind][:12] if one is not None]) for _, kind in table.key)
        rows[key] = tuple(choose.pick([v for v in domains.values[kind] if v is not None]) for _, kind in table.columns)
    if not rows:
        return None
    columns = zip(*((*key, *row) for key, row in rows.items()), strict=True)
    names = (*table.key, *table.columns)
    return pa.table({n: plain_array(list(c), k) for (n, k), c in zip(names, columns, strict=True)})


# ----------------------------------------------------------------------------------------------------- stories


@dataclass(frozen=True)
class Story:
    """An app, its initial state and some epochs; prints as a scenario."""

    app: m.AppModel
    schedules: list[Schedule]
    max_string_bytes: int
    initial: dict[str, pa.Table]
    epochs: list[Epoch]

    @property
    def config(self) -> ms.Config:
        return ms.Config(max_string_bytes=self.max_string_bytes, clock=lambda: scenario.WALL_US)

    def build(self) -> ms.App:
        lines = ["    " + line for line in m.source(self.app).splitlines()]
        return scenario.build_app(scenario.Section("app", "", 0, lines), "<generated>")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("\n" + story_text(self))


@st.composite
def stories(draw: Any, sizes: tuple[int, ...] = (1, 8, 12, 5, 16, 9, 6, 0), parts: bool = False) -> Story:
    """`parts`: of an app whose transactions may run in parts, so that every strategy runs as it is asked for."""
    choose = Chooser(draw)
    app = AppMaker(choose, parts).app()
    untyped = choose.maybe(24 if parts else 6)  # where keys have no type, all transactions abort
    chance = random.Random(draw(st.integers(0, 2**32)))
    schedules = some_schedules(chance, [one.name for one in app.transactions], parts)
    limit = choose.pick((4096, 60))  # strings that double with each event reach any limit
    domains = choose.pick((calm(8), calm(3), calm(12), calm(5), USUAL)) if parts else USUAL
    initial = {table.name: initial_rows(choose, table, domains) for table in app.tables}
    count = choose.pick((1, 4, 5, 3, 4, 2))
    epochs = [epoch(choose, app, i, choose.pick(sizes), untyped, domains) for i in range(count)]
    return Story(app, schedules, limit, {n: t for n, t in initial.items() if t is not None}, epochs)


def cuts(name: str) -> bool:
    """Whether a strategy cuts transactions into operations, or chains of them."""
    return name == "tstream" or "/f-" in name or "/c-" in name


# The whole product: strategies (and several in a batch), threads, punctuations, real threads or an interleaving.
SCHEDULES = list(itertools.product([*NAMES, "nested"], (1, 2, 3, 4), ("auto", 1, 3, 7), (False, True)))


# Here `auto` goes from one strategy to another within few events: drawn more often, as there are many ways.
SWITCHING = [one for one in SCHEDULES if one[0] == "auto" and one[3]]


LONGER = {1: 16, 3: "auto"}  # a batch of few transactions has little to cut: most of them become longer


def some_schedules(chance: random.Random, transactions: list[str], parts: bool = False) -> list[Schedule]:
    def point() -> tuple[Any, ...]:
        if chance.random() < 0.04:
            return chance.choice(SWITCHING)
        name, threads, punctuation, interleaved = chance.choice(SCHEDULES)
        if parts and chance.random() < 0.75:
            punctuation = LONGER.get(punctuation, punctuation)
        return name, threads, punctuation, interleaved

    return [schedule_of(point(), chance, transactions) for _ in range(SCHEDULES_PER_STORY)]


def schedule_of(point: tuple[Any, ...], chance: random.Random, transactions: list[str]) -> Schedule:
    name, threads, punctuation, interleaved = point
    points = [one for one in NAMES if "/" in one]
    drawn = points + [one for one in points if cuts(one)]  # as parts and whole transactions shall meet
    nested = {**{one: chance.choice(drawn) for one in transactions if chance.random() < 0.8}, "*": points[-1]}
    seed = chance.getrandbits(32) if interleaved else None
    return Schedule(nested if name == "nested" else name, threads, punctuation, seed)


def story_text(story: Story) -> str:
    """The story as a scenario file; what is expected is what the reference engine says now."""
    lines = ["# generated", "", "app", *("    " + line for line in m.source(story.app).splitlines()), ""]
    lines += [f"# on {schedule}" for schedule in story.schedules]
    lines += [f"config max_string_bytes={story.max_string_bytes}", ""]
    engine = open_reference(story.build(), story.config)
    for name, table in story.initial.items():
        lines += [f"state {name}", *_grid_lines(table, story.app.table(name)), ""]
        engine.load(name, table)
    for one in story.epochs:
        encodings = ", ".join(f"{field.name}: {field.type}" for field in one.table.schema)
        lines += [f"# as {encodings}", "epoch", *_epoch_lines(one, engine), ""]
    return "\n".join(lines)


def _grid_lines(table: pa.Table, model: m.TableModel) -> list[str]:
    kinds = dict((*model.key, *model.columns))
    rows = [[scenario.show(row[name], str(kinds[name])) for name in kinds] for row in table.to_pylist()]
    return _aligned([list(kinds), *rows])


def _epoch_lines(one: Epoch, engine: ms.Engine) -> list[str]:
    names = list(one.values)
    heads = [f"{name}:{'null' if one.kinds[name] is None else one.kinds[name]}" for name in names]
    count = one.table.num_rows
    rows = [[scenario.show(one.values[n][i], str(one.kinds[n])) for n in names] for i in range(count)]
    lines = _aligned([heads, *rows])
    number = pa.array(range(count), pa.int64())
    try:
        result = engine.process(one.table.append_column(scenario.ROW, number))
    except ms.MorphsparkError as error:
        return [*lines, "", f"error {type(error).__name__}: {error}"]
    shown = [n for n in result.column_names if n not in (*one.table.column_names, scenario.ROW, "_epoch", "_ts")]
    places = {row: place for place, row in enumerate(result[scenario.ROW].to_pylist())}
    kinds = {n: scenario.kind_of(result, n) for n in shown}
    outcomes = [["_status", "_reason", *shown[:-2]]]
    for row in range(count):
        got = result.slice(places[row], 1).to_pylist()[0] if row in places else {"_status": "diverted"}
        outcomes.append([scenario.show(got.get(n), kinds[n]) for n in outcomes[0]])
    return [f"{a} => {b.strip()}" for a, b in zip(lines, _aligned(outcomes), strict=True)]


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["    " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]


# ----------------------------------------------------------------------------------------------- Arrow encodings


def plain_array(values: list[Any], kind: Type | None) -> pa.Array:
    if kind is None:
        return pa.nulls(len(values))
    if TIMESTAMP in (kind, kind.element):
        whole = pa.int64() if kind == TIMESTAMP else pa.list_(pa.int64())
        return pa.array(values, whole).cast(to_arrow(kind))
    return pa.array(values, to_arrow(kind))


def encoded(choose: Chooser, values: list[Any], kind: Type | None) -> pa.ChunkedArray:
    """The column in one of the encodings that users have: narrow, dictionary, large, sliced, in chunks."""
    array = plain_array(values, kind)
    if kind is not None and choose.maybe(2):
        array = _recoded(array, choose.pick(_encodings(kind)))
    layout = choose.below(5)
    if layout in (1, 4) and len(array):
        array = pa.concat_arrays([array, array]).slice(len(array) if layout == 1 else 0, len(array))
    if layout == 2 and len(array) > 1:
        cut = 1 + choose.below(len(array) - 1)
        return pa.chunked_array([array.slice(0, cut), array.slice(cut)])
    return pa.chunked_array([array] if layout != 3 or len(array) else [], type=array.type)


def _recoded(array: pa.Array, wanted: Any) -> pa.Array:
    """The same values in another encoding; the array itself if one of them would not fit."""
    if wanted == "dictionary":
        return array.dictionary_encode()
    try:
        other = array.cast(wanted)
        return other if repr(other.cast(array.type).to_pylist()) == repr(array.to_pylist()) else array
    except pa.ArrowInvalid:
        return array


def _encodings(kind: Type) -> list[Any]:
    if kind == INT64:
        return [pa.int8(), pa.int32(), pa.int16(), pa.uint8(), pa.uint32(), "dictionary"]
    if kind == STRING:
        return [pa.large_string(), "dictionary", pa.string_view()]
    if kind == FLOAT64:
        return [pa.float32(), "dictionary"]
    if kind == TIMESTAMP:
        return [pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.timestamp("ms", "Asia/Tokyo")]
    if kind.name == "decimal":
        return [pa.decimal256(kind.precision, kind.scale), pa.decimal64(kind.precision, kind.scale)]
    if kind.element is not None:
        return [pa.large_list(to_arrow(kind.element))]
    return ["dictionary"]


_STRUCT = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
_PASSENGERS = [
    pa.array([1, None, 2**64 - 1, 3], pa.uint64()),
    pa.array([b"a", None, b"", b"bc"], pa.binary()),
    pa.array([{"x": 1, "y": ["a", None]}, None, {"x": None, "y": None}, {"x": 4, "y": []}], _STRUCT),
    pa.array([[("k", 1)], None, [], [("l", None), ("m", 2)]], pa.map_(pa.string(), pa.int64())),
    pa.array([datetime.date(2020, 1, 1), None, datetime.date(1970, 1, 1), None], pa.date32()),
    pa.array([[[1], [2, None]], None, [], [[]]], pa.list_(pa.list_(pa.int8()))),
    pa.array(["p", None, "q", "p"]).dictionary_encode(),
    pa.array([True, None, False, True]),
    pa.array([b"abc", None, b"xyz", b"..."], pa.binary(3)),
    pa.array([[1, 2], None, [3, None], [5, 6]], pa.list_(pa.int16(), 2)),
]


def _passenger(choose: Chooser, rows: int) -> pa.Array:
    """A column that no transaction uses, of a type that none could."""
    source = choose.pick(_PASSENGERS)
    return source.take(pa.array([byte % 4 for byte in choose.bytes(rows)], pa.int64()))
