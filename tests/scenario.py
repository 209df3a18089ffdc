"""Scenarios: text files that a person can read, run on both engines.

    # what is shown, and why it must be so

    app
        app = ms.App("ledger", order_by="ts")
        …                                               any Python; `ms`, `Decimal` and `datetime` are there

    config max_string_bytes=8                           optional

    state accounts                                      before the first epoch: loaded
        key | balance
        a   | 10

    epoch                                               events => what must come out
        ts:int64 | account:string | amount:int64 => _status   | _reason         | balance
        1        | a              | 5            => committed | null            | 15
        2        | null           | 5            => aborted   | key: null key … | null

    advance 30                                          engine.advance, between epochs

    fired                                               all firings of the last epoch or advance, in order
        _kind   | _ts | _status   | n
        summary | 10  | committed | 2

    error LateError: older by ts                        instead of `=>`: the epoch fails with these words

    state accounts                                      after an epoch: must be exactly this, in any order
        key | balance
        a   | 15

A cell is `null`, a number, true or false, a word or a JSON string, a date and time (UTC), or `[a, b, null]`. A reason
may end in `…`: then only its beginning counts. `_place` is the row's place in the output, from 0; the status of a
diverted event is `diverted`. Expected columns that are not named are not compared. The wall clock stands still.
"""

from __future__ import annotations

import ast
import datetime
import json
import linecache
import re
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import morphspark as ms
from morphspark import types
from morphspark.strategy import FIXED
from morphspark.testing import BothEngines, Schedule, both_engines

DIRECTIVE = re.compile(r"(app|config|state|epoch|advance|fired|error)\b\s*(.*)")
EPOCH_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
ROW = "scenario_row"  # passes through, and says which event an output row belongs to


@dataclass
class Section:
    word: str
    rest: str
    line: int
    body: list[str] = field(default_factory=list)


@dataclass
class Grid:
    """A table of cells: names (with types, if given), and rows of text."""

    names: list[str]
    kinds: list[str | None]
    rows: list[list[str]]


def parse(text: str) -> list[Section]:
    sections: list[Section] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            if sections and sections[-1].word == "app":
                sections[-1].body.append("")
            continue
        if line[0].isspace():
            sections[-1].body.append(line)
            continue
        match = DIRECTIVE.fullmatch(line.rstrip())
        assert match, f"line {number}: expected app, config, state, epoch, advance, fired or error, got {line!r}"
        sections.append(Section(match[1], match[2], number))
    return sections


WALL_US = 1_700_000_000_000_000  # the wall clock of all scenarios: 2023-11-14 22:13:20

# Every strategy: on threads, and as an interleaving that can be replayed.
SCHEDULES = [
    Schedule(),
    *(Schedule(name, threads=2 + index % 3, punctuation=(2, 5, "auto")[index % 3]) for index, name in enumerate(FIXED)),
    *(Schedule(name, threads=2 + index % 2, seed=index) for index, name in enumerate(FIXED)),
]


def run_file(path: Path) -> None:
    run(path.read_text(encoding="utf-8"), str(path))


def run(text: str, path: str = "<scenario>") -> None:
    sections = parse(text)
    app = build_app(next(one for one in sections if one.word == "app"), path)
    settings = _settings(next((one.rest for one in sections if one.word == "config"), ""))
    config = ms.Config(clock=lambda: WALL_US, **settings)
    with both_engines(app, config, SCHEDULES) as engines:
        last: pa.Table | None = None
        for index, section in enumerate(sections):
            following = sections[index + 1] if index + 1 < len(sections) else None
            try:
                last = _run_section(engines, section, following, last)
            except Exception as error:
                error.add_note(f"{path}:{section.line}: {section.word} {section.rest}")
                raise


def build_app(section: Section, path: str = "<scenario>") -> ms.App:
    lines = [""] * section.line + [line[4:] for line in section.body]
    if path.startswith("<"):  # no file: this is where Python looks for the source
        linecache.cache[path] = (0, None, [line + "\n" for line in lines], path)
    names: dict[str, Any] = {"ms": ms, "Decimal": Decimal, "datetime": datetime}
    exec(compile("\n".join(lines), path, "exec"), names)
    return names["app"]


def _settings(text: str) -> dict[str, Any]:
    return {name: ast.literal_eval(value) for name, _, value in (word.partition("=") for word in text.split())}


def _run_section(
    engines: BothEngines, section: Section, following: Section | None, last: pa.Table | None
) -> pa.Table | None:
    """What came out of it, or last came out before."""
    if section.word == "state" and engines.epoch == 0:
        engines.load(section.rest, _state_table(engines, section))
    elif section.word == "state":
        _check_state(engines, section)
    elif section.word == "epoch":
        return _run_epoch(engines, section, following)
    elif section.word == "advance":
        return engines.advance(_moment(section.rest))
    elif section.word == "fired":
        assert last is not None, "nothing has run yet"
        _check_fired(last, section)
    return last


def _moment(text: str) -> Any:
    return int(text) if text.isdigit() else datetime.datetime.fromisoformat(text)


def _check_fired(result: pa.Table, section: Section) -> None:
    places = result[ROW].is_null() if ROW in result.column_names else pa.array([True] * result.num_rows, pa.bool_())
    firings = result.filter(places)
    expected = grid(section.body) if section.body else Grid([], [], [])
    assert firings.num_rows == len(expected.rows), f"{firings.num_rows} firings: {firings.to_pylist()}"
    for row, cells in enumerate(expected.rows):
        got = firings.slice(row, 1).to_pylist()[0]
        shown = {name: _show(got, name, result) for name in expected.names}
        wanted = {n: _normal(text, kind_of(result, n)) for n, text in zip(expected.names, cells, strict=True)}
        _compare_row(row, shown, wanted)


# ------------------------------------------------------------------------------------------------------ epochs


def _run_epoch(engines: BothEngines, section: Section, following: Section | None) -> pa.Table | None:
    events, expected = epoch_grids(section)
    batch = event_table(events)
    if following is not None and following.word == "error":
        kind, _, words = following.rest.partition(":")
        before = engines.epoch
        try:
            engines.process(batch)
        except ms.MorphsparkError as error:
            assert (type(error).__name__, engines.epoch) == (kind.strip(), before), repr(error)
            assert words.strip() in str(error), f"{words.strip()!r} is not in {str(error)!r}"
            return None
        raise AssertionError(f"expected {following.rest}")
    result = engines.process(batch)
    assert expected is not None, "an epoch needs `=>` and what is expected, or an error after it"
    for row, cells in enumerate(expected.rows):
        want = dict(zip(expected.names, cells, strict=True))
        got = _output_row(engines, result, row)
        shown = {name: _show(got, name, result) for name in want}
        wanted = {name: _normal(text, kind_of(result, name)) for name, text in want.items()}
        _compare_row(row, shown, wanted)
    return result


def _output_row(engines: BothEngines, result: pa.Table, row: int) -> dict[str, Any]:
    places = result[ROW].to_pylist()
    if row in places:
        place = places.index(row)
        return {**result.slice(place, 1).to_pylist()[0], "_place": place}
    assert engines.late is not None and row in engines.late[ROW].to_pylist(), f"event {row} came out nowhere"
    return {"_status": "diverted"}


def kind_of(result: pa.Table, name: str) -> str:
    """The type of an output column; decimals may have up to 38 digits there."""
    if name == "_place":
        return "int64"
    kind = result.schema.field(name).type
    return str(types.decimal(kind.precision, kind.scale) if pa.types.is_decimal(kind) else types.from_arrow(kind))


def _show(got: dict[str, Any], name: str, result: pa.Table) -> str:
    return show(got.get(name), kind_of(result, name))


def _normal(text: str, kind: str) -> str:
    return text if text.endswith("…") else show(cell(text, kind), kind)


def _compare_row(row: int, got: dict[str, str], wanted: dict[str, str]) -> None:
    for name, want in wanted.items():
        same = got[name].strip('"').startswith(want[:-1]) if want.endswith("…") else got[name] == want
        assert same, f"event {row}: {name} is {got[name]}, expected {want}\n  got      {got}\n  expected {wanted}"


def epoch_grids(section: Section) -> tuple[Grid, Grid | None]:
    """Left and right of `=>`."""
    lines = [line for line in section.body if not line.strip().startswith("#")]
    if not lines:
        return Grid([], [], []), Grid([], [], [])
    split = [line.split("=>") for line in lines]
    events = grid([parts[0] for parts in split])
    return events, grid([parts[1] for parts in split]) if len(split[0]) > 1 else None


def grid(lines: list[str]) -> Grid:
    heads = [head.strip() for head in _cells(lines[0])]
    names = [head.partition(":")[0].strip() for head in heads]
    kinds = [head.partition(":")[2].strip() or None for head in heads]
    rows = [_cells(line) for line in lines[1:]]
    for row in rows:
        assert len(row) == len(names), f"{len(row)} cells under {len(names)} names: {row}"
    return Grid(names, kinds, rows)


def _cells(line: str) -> list[str]:
    """Split at | outside of quotes."""
    return [part.strip() for part in re.findall(r'((?:"(?:\\.|[^"\\])*"|[^|"])*)(?:\||$)', line.strip() + "|")[:-1]]


def event_table(events: Grid) -> pa.Table:
    columns = {}
    for index, (name, kind) in enumerate(zip(events.names, events.kinds, strict=True)):
        columns[name] = _array([row[index] for row in events.rows], kind or "int64")
    return pa.table({**columns, ROW: pa.array(range(len(events.rows)), pa.int64())})


def _array(cells: list[str], kind: str) -> pa.Array:
    logical = {"int8": "int64", "int16": "int64", "int32": "int64", "float32": "float64", "large_string": "string"}
    values = [cell(text, logical.get(kind, kind)) for text in cells]
    return pa.array(values, types.to_arrow(types.parse(kind, "scenario")) if kind not in logical else kind)


# ------------------------------------------------------------------------------------------------------- state


def _state_table(engines: BothEngines, section: Section) -> pa.Table:
    spec = next(one for one in engines.app.program.tables if one.name == section.rest)
    given = grid(section.body)
    kinds = dict((*spec.key, *spec.columns))
    assert sorted(given.names) == sorted(kinds), f"columns {given.names}, expected {list(kinds)}"
    cells = {name: [row[i] for row in given.rows] for i, name in enumerate(given.names)}
    return pa.table(
        {
            name: pa.array([cell(text, str(kind)) for text in cells[name]], types.to_arrow(kind))
            for name, kind in kinds.items()
        }
    )


def _check_state(engines: BothEngines, section: Section) -> None:
    expected = _state_table(engines, section)
    got = engines.table(section.rest)
    want, have = (sorted(map(repr, table.to_pylist())) for table in (expected, got))
    assert have == want, "\n".join(["state is", *have, "expected", *want])


# ------------------------------------------------------------------------------------------------------- cells


def cell(text: str, kind: str) -> Any:
    """The value that a cell stands for in a column of this type."""
    if text == "null":
        return None
    if kind.startswith("list<"):
        return [cell(one, kind[5:-1]) for one in _elements(text)]
    if kind.startswith("decimal"):
        return Decimal(text)
    if kind == "timestamp":
        return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
    if kind == "string":
        return json.loads(text) if text.startswith('"') else text
    if kind == "bool":
        return {"true": True, "false": False}[text]
    if kind == "null":
        raise ValueError(f"{text!r} in a column that has no type yet")
    return int(text) if kind == "int64" else float(text)


def _elements(text: str) -> list[str]:
    assert text.startswith("[") and text.endswith("]"), f"expected [a, b, …], got {text!r}"
    inner = text[1:-1].strip()
    return [one.strip() for one in re.findall(r'((?:"(?:\\.|[^"\\])*"|[^,"])*),', inner + ",")] if inner else []


def show(value: Any, kind: str) -> str:
    """A value as a cell."""
    if value is None:
        return "null"
    if kind.startswith("list<"):
        return "[" + ", ".join(show(one, kind[5:-1]) for one in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if kind == "timestamp":
        return moment(value)
    if kind == "string":
        plain = re.fullmatch(r"\w[\w :.]*", value) and not value.endswith(" ") and value != "null"
        return value if plain else json.dumps(value, ensure_ascii=False)
    return str(value) if isinstance(value, int | Decimal) else repr(float(value))


def moment(value: Any) -> str:
    """A datetime, or microseconds since 1970, as text."""
    if isinstance(value, int):
        value = EPOCH_START + datetime.timedelta(microseconds=value)
    return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat()
