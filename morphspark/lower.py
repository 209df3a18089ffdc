"""From a typed program to the register machine's code: one flat list of 64-bit words, and the strings it names.

The layout of the words is that which csrc/program/code.h reads; lower_steps.py makes the instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from .bind import BoundProgram, BoundTransaction
from .callee import Callee
from .lower_steps import Shared, TransactionLowering, value_words
from .machine_code import NO_TABLE, kind_code, listed
from .program import Const
from .types import NULL


@dataclass(frozen=True)
class Lowered:
    words: list[int]
    strings: list[bytes]
    functions: list[Callee]


def lower(bound: BoundProgram) -> Lowered:
    """Compile a typed program."""
    program = bound.program
    shared = Shared(
        columns={name: index for index, name in enumerate(bound.events)},
        tables={table.name: index for index, table in enumerate(program.tables)},
        kinds=list(bound.events.values()),
    )
    for transaction in bound.transactions:  # constants first: they have the lowest registers
        _collect_constants(transaction, shared)
    lowered = [TransactionLowering(bound, one, shared) for one in bound.transactions]
    parts = [one.words() for one in lowered]
    order_reasons = [shared.reason(f"null: {name}") for name in program.order_by]
    registers = max([len(shared.constants) + 1, *(one.registers for one in lowered)])
    words = [
        registers,
        *listed([kind_code(kind), kind_code(kind.element or NULL)] for kind in shared.kinds),
        *listed([shared.columns[name]] for name in program.order_by),
        *listed([reason] for reason in order_reasons),
        *listed([table, int(of_element), *listed([part] for part in key)] for table, of_element, key in shared.sites),
        *listed([kind_code(kind)] for kind in bound.returns.values()),
        *listed(map(_function_words, shared.functions.values())),
        *listed([reason] for reason in shared.blocks),
        *listed([shared.string(text)] for text in shared.reasons),
        *listed([kind_code(const.type), *value_words(const.value, const.type, shared)] for const in shared.constants),
        *listed(parts),
    ]
    if program.has_triggers or any(one.windows or one.collections for one in lowered):
        words += [len(bound.events), *(word for one in lowered for word in one.window_words())]
        words += listed(_trigger_words(bound, lowered, index) for index in _triggers(bound))
    return Lowered(words, list(shared.strings), list(shared.functions.values()))


def _triggers(bound: BoundProgram) -> list[int]:
    return [index for index, one in enumerate(bound.transactions) if one.transaction.trigger is not None]


def _trigger_words(bound: BoundProgram, lowered: list[TransactionLowering], index: int) -> list[int]:
    triggers = [bound.transactions[other].transaction.trigger for other in _triggers(bound)]
    trigger, one = bound.transactions[index].transaction.trigger, lowered[index]
    assert trigger is not None
    before = triggers[: _triggers(bound).index(index)]
    number = sum(t is not None and (t.kind, t.each) == (trigger.kind, trigger.each) for t in before)
    table = one.shared.tables[trigger.each] if trigger.each else NO_TABLE
    session = int(trigger.kind == "session")
    first = next(iter(one.columns.values()))
    return [index, session, trigger.period.size, trigger.window.size, table, number, first, one.not_due]


def _function_words(function: Callee) -> list[int]:
    given, results = (listed([kind_code(kind)] for kind in kinds) for kinds in (function.given, function.results))
    return [int(function.nullable), *given, *results]


def _collect_constants(bound: BoundTransaction, shared: Shared) -> None:
    operands = [arg for step in bound.transaction.steps for arg in (*step.args, *(c for c, _ in step.guard))]
    for operand in (*operands, *(operand for _, operand in bound.transaction.returns)):
        if isinstance(operand, Const):
            shared.constants.setdefault(operand, len(shared.constants))
