"""From the typed steps of one transaction to instructions of the register machine.

The machine has no types and no guards. Lowering picks the operation for the operands' types, puts conversions where
the types differ, turns a guard into skips over the steps it covers, and numbers every reason.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import types, values
from .bind import BoundProgram, BoundTransaction
from .callee import Callee, callee
from .machine_code import (
    COMPARISONS,
    CONSTANT_PART,
    FAILURES,
    MATCHES,
    NOT_DUE,
    OPS,
    REDUCTIONS,
    WINDOW_AGGREGATES,
    WINDOW_BY,
    WORK_KINDS,
    kind_code,
    listed,
)
from .program import Column, Const, Element, Guard, Operand, Ref, Step, loop_starts, reasons
from .types import FLOAT64, INT64, NULL, Type
from .window import window_of

_ARITHMETIC = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "floordiv": "FloorDiv", "mod": "Mod"}


def _letter(kind: Type) -> str:
    return {"float64": "F", "decimal": "D", "string": "S"}.get(kind.name, "I")


def _storage_letter(kind: Type) -> str:
    return "B" if kind == types.BOOL else _letter(kind)


@dataclass
class Shared:
    """What all transactions of a program number together."""

    columns: dict[str, int]  # of events
    tables: dict[str, int]
    kinds: list[Type]  # of all columns: those of events, then what each trigger has in their place
    constants: dict[Const, int] = field(default_factory=dict)
    strings: dict[bytes, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=lambda: {"": 0})
    blocks: list[int] = field(default_factory=lambda: [0] * len(FAILURES))
    sites: dict[tuple[int, bool, tuple[int, ...]], int] = field(default_factory=dict)
    functions: dict[tuple[str, tuple[Type, ...]], Callee] = field(default_factory=dict)

    def string(self, text: str) -> int:
        return self.strings.setdefault(text.encode(), len(self.strings))

    def reason(self, text: str) -> int:
        return self.reasons.setdefault(text, len(self.reasons))

    def block(self, texts: dict[str, str]) -> int:
        """Number the reasons of one instruction; the index of the first."""
        start = len(self.blocks)
        self.blocks.extend(self.reason(texts.get(failure, "")) for failure in FAILURES)
        return start


def _common_length(left: Sequence[Any], right: Sequence[Any]) -> int:
    for length, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return length
    return min(len(left), len(right))


def _use_counts(bound: BoundTransaction) -> list[int]:
    """How often the result of each step is used, also as a guard."""
    counts = [0] * len(bound.transaction.steps)
    for step in bound.transaction.steps:
        for operand in (*step.args, *(condition for condition, _ in step.guard)):
            if isinstance(operand, Ref):
                counts[operand.step] += 1
    for _, operand in bound.transaction.returns:
        if isinstance(operand, Ref):
            counts[operand.step] += 1
    return counts


def value_words(value: Any, kind: Type, shared: Shared) -> list[int]:
    """A value as two words: low and high."""
    if value is None:
        return [0, 0]
    if kind == types.STRING:
        return [shared.string(value), 0]
    if kind == FLOAT64:
        return [struct.unpack("<q", struct.pack("<d", value))[0], 0]
    if kind.name == "decimal":
        return [_signed(value & (2**64 - 1)), value >> 64]
    return [int(value), 0]


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


class TransactionLowering:
    def __init__(self, bound: BoundProgram, transaction: BoundTransaction, shared: Shared):
        self.program = bound.program
        self.returned = list(bound.returns)
        self.returned_types = bound.returns
        self.bound = transaction
        self.steps = transaction.transaction.steps
        self.shared = shared
        self.columns = shared.columns if transaction.transaction.trigger is None else self._own_columns()
        self.windows: list[list[int]] = []
        self.collections: dict[int, int] = {}  # rows' step → number; ~choose's step
        self.instructions: list[list[int]] = []
        self.loads: dict[int, int] = {}  # used column → register
        self.rows: list[tuple[int, int]] = []  # (register, site) of rows that the event names
        self.loops: dict[int, dict[str, Any]] = {}  # each's step → what the machine must know
        self.accumulators: dict[int, int] = {}  # begin's step → number
        self.called: dict[int, int] = {}  # call's step → register of its first result
        self.sites: dict[int, None] = {}
        self.first_step = len(shared.constants)
        self.registers = self.first_step + len(self.steps) + 1
        self.texts = reasons(transaction.transaction)
        self.uses = _use_counts(transaction)
        self.ends = {each: end for end, each in loop_starts(self.steps).items()}
        self.block = 0  # reasons of the step being lowered
        self.not_due = self._require_due()
        self._range(0, len(self.steps), ())
        self._returns()
        self.emit("Stop")

    # -- the encoding

    def _own_columns(self) -> dict[str, int]:
        """What a trigger has in place of an event's columns, behind all others."""
        first = len(self.shared.kinds)
        self.shared.kinds += self.bound.events.values()
        return {name: first + position for position, name in enumerate(self.bound.events)}

    def _require_due(self) -> int:
        """The core may plan the firing of a row before it knows whether the row will have a version in the window. So
        a firing first looks if it has: the reason that it gives if not, and is dropped for; 0: it always has."""
        trigger = self.bound.transaction.trigger
        if trigger is None or trigger.kind != "every" or not trigger.each:
            return 0
        table, kind = self.shared.tables[trigger.each], self.program.table(trigger.each).columns[0][1]
        row, newest = self.temporary(2), self.registers - 1
        _, _, *key = self.columns.values()  # behind start and end
        self.rows.append((row, self._site(table, False, tuple(key))))
        self.windows.append(
            [WINDOW_AGGREGATES.index("last"), WINDOW_BY["time"], trigger.window.size, 0, kind_code(kind), 0]
        )
        block = self.shared.block(dict.fromkeys(FAILURES, NOT_DUE))
        self.emit("Window", newest, a=row, b=0, c=0, aux=table, block=block)
        self.emit("Need", a=newest, block=block)
        return self.shared.reason(NOT_DUE)

    def window_words(self) -> list[int]:
        return [*listed(self.windows), len(self.collections)]

    def words(self) -> list[int]:
        return [
            *listed(self._condition(name, accepted) for name, accepted in self.bound.transaction.on),
            *listed(self.instructions),
            *listed([register, column] for column, register in self.loads.items()),
            *listed(self.rows),
            *listed(self._loop_words(loop) for loop in self.loops.values()),
            *listed(self._accumulator_words(begin) for begin in self.accumulators),
            *listed([site] for site in self.sites),
        ]

    def _loop_words(self, loop: dict[str, Any]) -> list[int]:
        elements = ([register, position] for position, register in loop["elements"].items())
        return [*listed([one] for one in loop["lists"]), *listed(elements), loop["body"], loop["after"]]

    def _accumulator_words(self, begin: int) -> list[int]:
        kind = self.bound.accumulated.get(begin, NULL)
        name = self.steps[begin].text
        gained = 0
        for index, step in enumerate(self.steps):
            if step.op == "reduce" and step.args == (Ref(begin),) and kind.name == "decimal":
                gained = self.bound.types[index].scale - kind.scale
        return [REDUCTIONS.index(name), kind_code(kind), gained]

    def _condition(self, name: str, accepted: tuple[Const, ...]) -> list[int]:
        kind = self.bound.events[name]
        matches = [match for one in accepted if (match := _match(kind, one)) is not None]
        coded = ([MATCHES.index(match), *value_words(value, as_type, self.shared)] for match, value, as_type in matches)
        return [self.columns[name], kind.scale, *listed(coded)]

    # -- instructions and registers

    def emit(
        self, op: str, dst: int = 0, a: int = 0, b: int = 0, c: int = 0, aux: int = 0, block: int | None = None
    ) -> int:
        reasons_at = self.block if block is None else block
        self.instructions.append([OPS[op], aux, dst, a, b, c & 0xFFFFFFFF, reasons_at])
        return len(self.instructions) - 1

    def here(self) -> int:
        return len(self.instructions)

    def patch(self, at: Iterable[int]) -> None:
        """Let these skips and jumps lead to the next instruction."""
        for index in at:
            position = 3 if self.instructions[index][0] == OPS["Jump"] else 4
            self.instructions[index][position] = self.here()

    def temporary(self, count: int = 1) -> int:
        self.registers += count
        return self.registers - count

    def register(self, operand: Operand) -> int:
        if isinstance(operand, Const):
            return self.shared.constants[operand]
        if isinstance(operand, Ref):
            return self.first_step + operand.step
        if isinstance(operand, Column):
            column = self.columns[operand.name]
            if column not in self.loads:
                self.loads[column] = self.temporary()
            return self.loads[column]
        elements = self.loops[operand.loop]["elements"]
        if operand.position not in elements:
            elements[operand.position] = self.temporary()
        return elements[operand.position]

    def operand_block(self, index: int, position: int) -> int:
        """Reasons for an instruction whose first operand is operand `position` of this step."""
        texts = self.texts[index]
        return self.shared.block({**texts, "null0": texts[f"null{position}"]})

    def need_all(self, index: int, step: Step) -> None:
        for position, operand in enumerate(step.args):
            self.emit("Need", a=self.register(operand), block=self.operand_block(index, position))

    # -- guards and loops

    def _range(self, start: int, end: int, outer: Guard) -> None:
        """Lower steps that all happen under `outer`, which is checked already.

        Conditions open and close like blocks: a step only checks what the step before it did not.
        """
        open_conditions: list[tuple[Operand, bool]] = []
        skips: list[int] = []  # of each open condition, to behind its last step
        index = start
        while index < end:
            guard = self.steps[index].guard
            assert guard[: len(outer)] == outer, "a step's guard continues that of its loop"
            wanted = guard[len(outer) :]
            common = _common_length(open_conditions, wanted)
            self.patch(skips[common:])
            del open_conditions[common:], skips[common:]
            for condition, value in wanted[common:]:
                skips.append(self.emit("SkipUnless", a=self.register(condition), aux=int(value)))
                open_conditions.append((condition, value))
            if self.steps[index].op == "each":
                if not self._names_only(index) and not self._collects_only(index):
                    self._loop(index, guard)
                index = self.ends[index] + 1
            else:
                index += self._update(index) or self._step(index)
        self.patch(skips)

    def _names_only(self, index: int) -> bool:
        """A loop over one list that only names rows, for ms.window, which names them again."""
        body = range(index + 1, self.ends[index])
        return len(self.steps[index].args) == 1 and all(
            self.steps[step].op == "row" and self.uses[step] == 0 for step in body
        )

    def _collects_only(self, index: int) -> bool:
        """Lower a loop over one list that only puts a row for each element into a window, as one instruction."""
        body = self.steps[index + 1 : self.ends[index]]
        if len(self.steps[index].args) != 1 or [one.op for one in body] != ["row", "collect"]:
            return False
        row, collect = body
        guard = self.steps[index].guard
        whole = row.args == (Element(index, 0),) and collect.args[0] == Ref(index + 1) and self.uses[index + 1] == 1
        if not whole or row.guard != guard or collect.guard != guard:
            return False
        (given,) = self.steps[index].args
        assert isinstance(given, Column) and isinstance(collect.args[1], Ref)
        table, column = self.shared.tables[row.table], self.shared.columns[given.name]
        site, number = self._site(table, True, (column,)), self.collections[collect.args[1].step]
        self.emit("CollectElements", a=site, b=number, c=column, aux=table)
        return True

    def _loop(self, index: int, guard: Guard) -> None:
        step = self.steps[index]
        number = len(self.loops)
        lists = [self.shared.columns[arg.name] for arg in step.args]  # type: ignore[union-attr]
        loop: dict[str, Any] = {"number": number, "lists": lists, "elements": {}}
        self.loops[index] = loop
        self.emit("Each", a=number, block=self.shared.block(self.texts[index]))
        loop["body"] = self.here()
        self._range(index + 1, self.ends[index], guard)
        self.emit("End", a=number)
        loop["after"] = self.here()

    # -- steps

    def _update(self, index: int) -> int:
        """Lower `row.column += value` as one instruction, if these are its three steps: how many were lowered.

        Only where nothing else uses what was read or added: then the failures come in the same order as from the
        three, and nobody misses the values between.
        """
        if self.steps[index].op != "read" or index + 2 >= len(self.steps):
            return 0
        read, change, write = self.steps[index : index + 3]
        kind = self.bound.types[index]
        fits = (
            change.op in ("add", "sub")
            and change.args[0] == Ref(index)
            and change.args[1] != Ref(index)
            and self.bound.type_of(change.args[1]) == kind
            and kind in (INT64, FLOAT64)
            and write.op == "write"
            and write.args == (read.args[0], Ref(index + 1))
            and write.columns == read.columns
            and read.guard == change.guard == write.guard
            and self.uses[index] == self.uses[index + 1] == 1
        )
        if not fits:
            return 0
        table, column = self._table_and_column(read)
        texts = {**self.texts[index + 1], **{name: self.texts[index][name] for name in ("key", "outside", "missing")}}
        op = {"add": "Increase", "sub": "Decrease"}[change.op] + _letter(kind)
        row, value = self.register(read.args[0]), self.register(change.args[1])
        self.emit(op, a=row, b=value, c=column, aux=table, block=self.shared.block(texts))
        return 3

    def _step(self, index: int) -> int:
        step = self.steps[index]
        self.block = self.shared.block(self.texts[index])
        dst = self.first_step + index
        lower_step = getattr(self, f"_{step.op}", None)
        if lower_step is not None:
            lower_step(index, step, dst)
        elif step.op in _ARITHMETIC:
            self._arithmetic(index, step, dst)
        elif step.op in COMPARISONS:
            self._comparison(index, step, dst)
        else:
            a, b = (*map(self.register, step.args), 0, 0)[:2]
            self.emit({"and": "And", "or": "Or", "xor": "Xor", "not": "Not"}[step.op], dst, a, b)
        return 1

    def convert(
        self, register: int, given: Type, wanted: Type, block: int | None = None, dst: int | None = None
    ) -> int:
        """A register with the value in another type; null stays null. `dst` forces the place."""
        if given.name == wanted.name and given.scale == wanted.scale or NULL in (given, wanted):
            return register if dst is None else self._copied(register, dst)
        dst = self.temporary() if dst is None else dst
        if wanted == FLOAT64:
            op = "IntToFloat" if given == INT64 else "DecimalToFloat"
            self.emit(op, dst, register, aux=given.scale)
        else:
            assert wanted.name == "decimal" and wanted.scale >= given.scale, (given, wanted)
            from_integer = int(given == INT64)
            self.emit("DecimalUp", dst, register, c=from_integer, aux=wanted.scale - given.scale, block=block)
        return dst

    def _copied(self, register: int, dst: int) -> int:
        self.emit("Copy", dst, register)
        return dst

    def _operands(self, step: Step) -> list[tuple[int, Type]]:
        return [(self.register(arg), self.bound.type_of(arg)) for arg in step.args]

    def _arithmetic(self, index: int, step: Step, dst: int) -> None:
        result = self.bound.types[index]
        (left, left_type), (right, right_type) = self._operands(step)
        if result == NULL:
            self.need_all(index, step)
        elif result == types.STRING:
            self.emit("Concat", dst, left, right)
        elif result == FLOAT64:
            left, right = self.convert(left, left_type, FLOAT64), self.convert(right, right_type, FLOAT64)
            self.emit(_ARITHMETIC[step.op] + "F", dst, left, right)
        elif result.name == "decimal":
            self._decimal_arithmetic(index, step, dst)
        else:
            self.emit(_ARITHMETIC[step.op] + "I", dst, left, right)

    def _decimal_arithmetic(self, index: int, step: Step, dst: int) -> None:
        (left, left_type), (right, right_type) = self._operands(step)
        result = self.bound.types[index]
        if step.op in ("mul", "div"):  # each keeps its own scale
            left = self.convert(left, left_type, types.between(left_type.scale))
            right = self.convert(right, right_type, types.between(right_type.scale))
        else:
            self.need_all(index, step)  # before an operand is moved to the common scale, which may overflow
            common = types.between(max(left_type.scale, right_type.scale))
            left, right = self.convert(left, left_type, common), self.convert(right, right_type, common)
        gained = result.scale + right_type.scale - left_type.scale if step.op == "div" else 0
        self.emit(_ARITHMETIC[step.op] + "D", dst, left, right, c=gained)

    def _comparison(self, index: int, step: Step, dst: int) -> None:
        (left, left_type), (right, right_type) = self._operands(step)
        operator = COMPARISONS.index(step.op)
        both = {left_type.name, right_type.name}
        if "float64" in both:
            left, right = self.convert(left, left_type, FLOAT64), self.convert(right, right_type, FLOAT64)
            self.emit("CompareF", dst, left, right, aux=operator)
        elif "decimal" in both:
            left = self.convert(left, left_type, types.between(left_type.scale))
            right = self.convert(right, right_type, types.between(right_type.scale))
            self.emit("CompareD", dst, left, right, c=right_type.scale - left_type.scale, aux=operator)
        else:
            letter = "S" if "string" in both else "I"
            self.emit("Compare" + letter, dst, left, right, aux=operator)

    def _neg(self, index: int, step: Step, dst: int) -> None:
        self._unary("Neg", index, step, dst)

    def _abs(self, index: int, step: Step, dst: int) -> None:
        self._unary("Abs", index, step, dst)

    def _work(self, index: int, step: Step, dst: int) -> None:
        kind, rounds = step.text.split(":")
        self.emit("Work", dst, self.register(step.args[0]), c=int(rounds), aux=WORK_KINDS.index(kind))

    def _random(self, index: int, step: Step, dst: int) -> None:
        around = [loop["number"] for loop in self.loops.values() if "after" not in loop]
        self.emit("Random", dst, index, around[-1] + 1 if around else 0)

    def _now(self, index: int, step: Step, dst: int) -> None:
        self.emit("Now", dst)

    def _unary(self, op: str, index: int, step: Step, dst: int) -> None:
        self.emit(op + _letter(self.bound.types[index]), dst, self.register(step.args[0]))

    def _min(self, index: int, step: Step, dst: int) -> None:
        result = self.bound.types[index]
        self.need_all(index, step)
        converted = [self.convert(register, kind, result) for register, kind in self._operands(step)]
        best = converted[0]
        for register in converted[1:]:
            self.emit(step.op.capitalize() + _letter(result), dst, best, register)
            best = dst

    _max = _min

    def _where(self, index: int, step: Step, dst: int) -> None:
        result = self.bound.types[index]
        (condition, _), (chosen, chosen_type), (other, other_type) = self._operands(step)
        self.emit("Need", a=condition)
        skip = self.emit("SkipUnless", a=condition, aux=1)
        self.convert(chosen, chosen_type, result, dst=dst)
        end = self.emit("Jump")
        self.patch([skip])
        self.convert(other, other_type, result, dst=dst)
        self.patch([end])

    def _coalesce(self, index: int, step: Step, dst: int) -> None:
        ends = []
        for register, kind in self._operands(step):
            skip = self.emit("SkipIfNull", a=register)
            self.convert(register, kind, self.bound.types[index], dst=dst)
            ends.append(self.emit("Jump"))
            self.patch([skip])
        self.emit("SetNull", dst)
        self.patch(ends)

    def _is_null(self, index: int, step: Step, dst: int) -> None:
        self.emit("IsNull", dst, self.register(step.args[0]))

    def _require(self, index: int, step: Step, dst: int) -> None:
        self.emit("Require", a=self.register(step.args[0]))

    def _when(self, index: int, step: Step, dst: int) -> None:
        self.emit("When", dst, self.register(step.args[0]))

    # -- user functions

    def _call(self, index: int, step: Step, dst: int) -> None:
        self.need_all(index, step)
        kinds = tuple(kind for _, kind in self._operands(step))
        if NULL in kinds:
            return  # it has failed
        spec = self.bound.transaction.function_of(step)
        if (spec.name, kinds) not in self.shared.functions:
            self.shared.functions[spec.name, kinds] = callee(spec, kinds)
        number = list(self.shared.functions).index((spec.name, kinds))
        first = self._side_by_side(step.args) if kinds else 0
        several = len(spec.results) > 1
        self.called[index] = self.temporary(len(spec.results)) if several else dst
        self.emit("Call", self.called[index], first, len(kinds), len(spec.results), aux=number)

    def _result(self, index: int, step: Step, dst: int) -> None:
        call = step.args[0].step  # type: ignore[union-attr]
        if call in self.called:
            self.emit("Copy", dst, self.called[call] + int(step.text))

    # -- state

    def _row(self, index: int, step: Step, dst: int) -> None:
        table = self.shared.tables[step.table]
        only = step.args[0] if len(step.args) == 1 else None
        if isinstance(only, Element):
            loop = self.loops[only.loop]
            site = self._site(table, True, (loop["lists"][only.position],))
            self.emit("RowOfElement", dst, a=site, b=loop["number"], c=only.position)
        elif all(isinstance(arg, Column | Const) for arg in step.args):
            site = self._site(table, False, tuple(map(self._site_part, step.args)))
            self.rows.append((dst, site))
        else:
            self.emit("RowOfKey", dst, a=self._side_by_side(step.args), b=len(step.args), aux=table)

    def _choose(self, index: int, step: Step, dst: int) -> None:
        table, parts = self.shared.tables[step.table], len(self.program.table(step.table).key)
        number = self.collections[~index] = len(self.collections)  # no step of this number is a window's
        self.emit("Rows", a=number, aux=table)
        for arg in step.args[parts:]:
            if isinstance(arg, Column):
                column = self.columns[arg.name]
                self.emit("CollectElements", a=self._site(table, True, (column,)), b=number, c=column, aux=table)
            else:
                self.emit("Collect", a=self.register(arg), b=number, aux=table)
        self.emit("Choose", dst, a=self._side_by_side(step.args[:parts]), b=number, c=parts, aux=table)

    def _side_by_side(self, args: Sequence[Operand]) -> int:
        """Copies of values in registers one behind the other: the first of them."""
        first = self.temporary(len(args))
        for offset, arg in enumerate(args):
            self.emit("Copy", first + offset, self.register(arg))
        return first

    def _site(self, table: int, of_element: bool, parts: tuple[int, ...]) -> int:
        site = self.shared.sites.setdefault((table, of_element, parts), len(self.shared.sites))
        self.sites[site] = None
        return site

    def _site_part(self, arg: Operand) -> int:
        if isinstance(arg, Const):
            return CONSTANT_PART | self.shared.constants[arg]
        assert isinstance(arg, Column)
        return self.columns[arg.name]

    def _table_and_column(self, step: Step) -> tuple[int, int]:
        return self.shared.tables[step.table], self.program.table(step.table).column_index(step.columns[0])

    def _read(self, index: int, step: Step, dst: int) -> None:
        table, column = self._table_and_column(step)
        letter = _storage_letter(self.bound.types[index])
        op = "ReadI" if letter == "F" else "Read" + letter
        self.emit(op, dst, a=self.register(step.args[0]), c=column, aux=table)

    def _exists(self, index: int, step: Step, dst: int) -> None:
        self.emit("Exists", dst, a=self.register(step.args[0]), aux=self.shared.tables[step.table])

    def _delete(self, index: int, step: Step, dst: int) -> None:
        self.emit("Delete", a=self.register(step.args[0]), aux=self.shared.tables[step.table])

    def _write(self, index: int, step: Step, dst: int) -> None:
        table, column = self._table_and_column(step)
        row = self.register(step.args[0])
        stored = self._stored(index, step, 1, row)
        letter = _storage_letter(self.program.table(step.table).columns[column][1])
        self.emit("Write" + letter, a=row, b=stored, c=column, aux=table)

    def _insert(self, index: int, step: Step, dst: int) -> None:
        table = self.shared.tables[step.table]
        row = self.register(step.args[0])
        self.emit("CheckKey", a=row)
        stored = []
        for position in range(1, len(step.args)):
            register, block = self.register(step.args[position]), self.operand_block(index, position)
            self.emit("Need", a=register, block=block)
            stored.append(self._stored(index, step, position, row))
            if stored[-1] != register:  # another operation may have converted it, and failed
                self.emit("Need", a=stored[-1], block=block)
        self.emit("Insert", a=row, aux=table)
        for column, register in enumerate(stored):
            self.emit("Store", a=row, b=register, c=column, aux=table)

    def _stored(self, index: int, step: Step, position: int, row: int) -> int:
        """An operand as its column stores it. Its failures come after a null key's, before a missing row's."""
        table = self.program.table(step.table)
        wanted = table.columns[table.column_index(step.columns[position - 1])][1]
        given = self.bound.type_of(step.args[position])
        register = self.register(step.args[position])
        if wanted.name != "decimal" or given == NULL:
            return self.convert(register, given, wanted)
        self.emit("CheckKey", a=row)
        exact = self.convert(register, given, types.between(given.scale))
        stored, gained = self.temporary(), wanted.scale - given.scale
        block = self.operand_block(index, position)
        self.emit("DecimalAssign", stored, exact, c=gained, aux=wanted.precision, block=block)
        return stored

    # -- windows

    def _rows(self, index: int, step: Step, dst: int) -> None:
        self.collections[index] = len(self.collections)
        self.emit("Rows", a=self.collections[index], aux=self.shared.tables[step.table])

    def _collect(self, index: int, step: Step, dst: int) -> None:
        rows = step.args[1]
        assert isinstance(rows, Ref)
        table = self.shared.tables[step.table]
        self.emit("Collect", a=self.register(step.args[0]), b=self.collections[rows.step], aux=table)

    def _window(self, index: int, step: Step, dst: int) -> None:
        table, column = self._table_and_column(step)
        aggregate, span = window_of(step.text)
        kind = self.program.table(step.table).columns[column][1]
        since = self.register(step.args[1]) if span.unit == "trigger" else 0
        gained = self.bound.types[index].scale - kind.scale if kind.name == "decimal" and aggregate == "mean" else 0
        by = WINDOW_BY[span.unit]
        self.windows.append([WINDOW_AGGREGATES.index(aggregate), by, span.size, since, kind_code(kind), gained])
        rows = step.args[0]
        assert isinstance(rows, Ref)
        several = rows.step in self.collections
        a = self.collections[rows.step] if several else self.register(rows)
        op = "WindowOfRows" if several else "Window"
        self.emit(op, dst, a=a, b=len(self.windows) - 1, c=column, aux=table)

    # -- reductions and results

    def _begin(self, index: int, step: Step, dst: int) -> None:
        self.accumulators[index] = len(self.accumulators)
        self.emit("Begin", a=self.accumulators[index])

    def _accumulate(self, index: int, step: Step, dst: int) -> None:
        value, begin = step.args
        assert isinstance(begin, Ref)
        register = self.register(value)
        self.emit("Need", a=register)
        converted = self.convert(register, self.bound.type_of(value), self.bound.accumulated[begin.step])
        self.emit("Accumulate", a=converted, b=self.accumulators[begin.step])

    def _reduce(self, index: int, step: Step, dst: int) -> None:
        begin = step.args[0]
        assert isinstance(begin, Ref)
        self.emit("Reduce", dst, a=self.accumulators[begin.step])

    def _returns(self) -> None:
        """All conversions, which may fail, before the first value is put out."""
        emitted = []
        for name, operand in self.bound.transaction.returns:
            kind, wanted = self.bound.type_of(operand), self.returned_types[name]
            if kind == NULL:
                continue
            block = self.shared.block({"overflow": f"overflow: {name}"})
            register = self.convert(self.register(operand), kind, wanted, block=block)
            emitted.append((register, self.returned.index(name)))
        for register, column in emitted:
            self.emit("Emit", a=register, b=column)


def _match(kind: Type, accepted: Const) -> tuple[str, Any, Type] | None:
    """How an on() value is compared with a column: (match, value, type of the value); None: can't be equal."""
    if kind == NULL:
        return None
    value, given = accepted.value, accepted.type
    if FLOAT64 in (kind, given):
        match = {"float64": "float", "int64": "int_as_float", "decimal": "decimal_as_float"}[kind.name]
        return match, values.to_float(value, given), FLOAT64
    if kind.name == "decimal" or given.name == "decimal":
        if value * 10**kind.scale % 10**given.scale:
            return None  # digits that the column does not have
        exact = value * 10**kind.scale // 10**given.scale
        if kind.name == "decimal":
            return ("decimal", exact, kind) if abs(exact) < 10**types.DECIMAL_DIGITS_BETWEEN else None
        return ("int", exact, INT64) if values.INT64_MIN <= exact <= values.INT64_MAX else None
    match = {"int64": "int", "timestamp": "int", "bool": "bool", "string": "string"}[kind.name]
    return match, value, kind
