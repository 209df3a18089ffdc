"""Whom a state directory belongs to: one app with its program, and one query.

evolve="tables"     tables, and columns of tables that have a default, may have been added
evolve="program"    transactions, defaults and the seed may have changed as well

Nothing may go: a table or column that is no longer declared, another type, another key, another order. Whoever wants
that starts a new directory with what `morphspark state export` gives of the old one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigError, EpochError, StateError
from ..program import Program, TableSpec, Transaction
from .records import Bind

EVOLVE = (None, "tables", "program")


@dataclass(frozen=True)
class Difference:
    """Between the program that a directory knows and the one that opens it."""

    refused: list[str]
    tables: list[str]
    program: list[str]


def check_evolve(evolve: str | None) -> None:
    if evolve not in EVOLVE:
        raise ConfigError(f"evolve={evolve!r}: expected 'tables', 'program', or nothing")


def rebound(location: str, bound: Bind, program: Program, query: str | None, evolve: str | None) -> Bind | None:
    """What the directory must be bound to from now on; None if that is what it is bound to."""
    check_query(location, bound, query)
    if bound.app != program.name:
        raise StateError(
            f"{location} holds the state of app {bound.app!r}, and app {program.name!r} wants to open it. Nothing was "
            f"changed. Each app has a folder of its own"
        )
    wanted = Bind(program.name, program, bound.query or query)
    if bound.program.hash != program.hash:
        _check_difference(location, compare(bound.program, program), evolve)
    return None if wanted == bound else wanted


def check_query(location: str, bound: Bind, query: str | None) -> None:
    if bound.query is not None and query is not None and bound.query != query:
        raise EpochError(
            f"{location} holds the state of query {bound.query}, and query {query} wants to use it. Nothing was "
            f"changed. A query has a new id when it starts with another checkpointLocation: bring the old checkpoint "
            f"back and go on where both stopped, or give the new query a new folder for its state"
        )


def _check_difference(location: str, found: Difference, evolve: str | None) -> None:
    if found.refused:
        raise StateError(
            f"{location} was made by another program, and this can't be carried over: {'; '.join(found.refused)}. "
            f"Nothing was changed. Declare it as it was, or start with a new folder"
        )
    if found.program and evolve != "program":
        raise StateError(
            f"{location} was made by another program: {'; '.join([*found.program, *found.tables])}. Nothing was "
            f"changed. To go on with the new one from the next epoch, open it once with evolve='program'"
        )
    if evolve is None:
        raise StateError(
            f"{location} was made with other tables: {'; '.join(found.tables)}. Nothing was changed. To add them, "
            f"open it once with evolve='tables'"
        )


def compare(before: Program, after: Program) -> Difference:
    found = Difference([], [], [])
    if before.order_by != after.order_by:
        found.refused.append(f"order_by was {list(before.order_by)}, is {list(after.order_by)}")
    old, new = ({table.name: table for table in program.tables} for program in (before, after))
    for name, table in old.items():
        if name not in new:
            found.refused.append(f"table {name!r} is gone")
        else:
            _compare_tables(table, new[name], found)
    found.tables.extend(f"table {name!r} is new" for name in new if name not in old)
    if before.seed != after.seed:
        found.program.append(f"the seed was {before.seed}, is {after.seed}")
    was, now = ({one.name: one for one in program.transactions} for program in (before, after))
    for name in dict.fromkeys((*was, *now)):
        if was.get(name) != now.get(name):
            changed = "is new" if name not in was else "is gone" if name not in now else "is another"
            found.program.append(f"transaction {name!r} {changed}{_functions(was.get(name), now.get(name))}")
    if [name for name in was if name in now] != [name for name in now if name in was]:
        found.program.append("the transactions have another order, and an event runs the first that matches")
    if not (found.refused or found.tables or found.program):
        found.program.append("tables or their columns have another order")
    return found


def _functions(before: Transaction | None, after: Transaction | None) -> str:
    """Which user functions make the difference."""
    if before is None or after is None:
        return ""
    old = {one.name: one for one in before.functions}
    other = [one.name for one in after.functions if one.name in old and old[one.name] != one]
    return "".join(f" (function {name!r} is)" for name in other)


def _compare_tables(before: TableSpec, after: TableSpec, found: Difference) -> None:
    where = f"table {before.name!r}"
    if before.key != after.key:
        found.refused.append(f"{where} has another key")
    old, new = dict(before.columns), dict(after.columns)
    for name, kind in old.items():
        if name not in new:
            found.refused.append(f"{where}: column {name!r} is gone")
        elif new[name] != kind:
            found.refused.append(f"{where}: column {name!r} was {kind}, is {new[name]}")
    for name in new:
        if name not in old and after.default is None:
            found.refused.append(
                f"{where}: column {name!r} is new, but the table has no default for rows that are there"
            )
        elif name not in old:
            found.tables.append(f"{where}: column {name!r} is new")
    if _defaults(before, old) != _defaults(after, old):
        found.program.append(f"{where} has another default")
    if before.retain != after.retain:
        found.program.append(f"{where} retains {_retained(after)}, not {_retained(before)}")


def _retained(table: TableSpec) -> str:
    return "what windows need" if table.retain is None else str(table.retain)


def _defaults(table: TableSpec, columns: dict[str, object]) -> dict[str, str] | None:
    if table.default is None:
        return None
    pairs = zip(table.columns, table.default, strict=True)
    return {name: repr(value) for (name, _), value in pairs if name in columns}
