r"""The log: one record after the other, and nothing is committed that has none.

    state directory  = log, data
    log              = record*            log/000000000000.json, log/000000000001.json, … without gaps
    record           = json "\n" sha256 "\n"
                       sha256: of the json, in hexadecimal; the next record carries it as `previous`

Every record has `format`, `number`, `kind`, `previous`, `state` (a random id of the directory), `writer` (of the
opening that wrote it) and `written_us` (microseconds since 1970). By kind:

    bind        what the directory belongs to: app, program, query. The first record; again when one of them changes
    load        initial rows of one table: its file
    epoch       an epoch: its id, watermark, largest order key, event types, wall clock, counts, its log (the changed
                rows, or the commands in executed order), its output, its late events
    call        an ad-hoc transaction between epochs: its changed rows
    advance     time that passed without events: the rows that triggers changed, and where the stream stands since
    snapshot    all rows as record `of` left them, and what recovery must know besides

Rows are those of a table (files.py). Of a table that keeps versions a file has every version that was left, in order,
and a snapshot all that are kept; rows that are no version, such as loaded ones, have `_sequence` 0:

    row              = key part*, value*, version?, _deleted?
    version          = _time (effective timestamp), _sequence (of the transaction), _first<n>* (of each session)
    _deleted         in changed rows only; all earlier versions of the key are hidden

A record is created by `put_if_absent`, when all files it names are durable. Whoever creates number n has committed
it; another writer finds the name taken and stops. A record is never changed. Old ones are deleted from the front, up
to one that a snapshot makes superfluous.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .. import types
from ..core import Progress
from ..errors import StateError
from ..program import Program
from ..types import Type
from .files import DataFile, file_from_json, file_to_json

FORMAT = 2  # 1: rows without versions, progress without clock and last_event
FOLDER = "log"
NAME = re.compile(r"(\d{12})\.json")


@dataclass(frozen=True)
class Bind:
    app: str
    program: Program
    query: str | None  # None: no query has used it yet

    def to_json(self) -> dict[str, Any]:
        return {
            "app": self.app,
            "query": self.query,
            "program": json.loads(self.program.to_json()),
            "hash": self.program.hash,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Bind:
        return Bind(data["app"], Program.from_json(json.dumps(data["program"])), data["query"])

    @property
    def files(self) -> tuple[DataFile, ...]:
        return ()


@dataclass(frozen=True)
class Load:
    table: str
    rows: DataFile | None

    def to_json(self) -> dict[str, Any]:
        return {"table": self.table, "rows": file_to_json(self.rows)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Load:
        return Load(data["table"], file_from_json(data["rows"]))

    @property
    def files(self) -> tuple[DataFile, ...]:
        return _there(self.rows)


@dataclass(frozen=True)
class Epoch:
    progress: Progress  # after it
    types: Mapping[str, Type]  # of event columns, after it
    clock_us: int  # the wall clock that the epoch saw
    counts: Mapping[str, int]
    mode: str  # delta or command
    log: DataFile | None  # None: a delta without changes
    output: DataFile
    late: DataFile | None  # None: no event was diverted
    event_columns: tuple[str, ...]  # of the output, the first ones
    note: Any = None  # of whoever brought the epoch: the sink keeps Spark's schema here

    @property
    def epoch(self) -> int:
        return self.progress.epoch - 1

    @property
    def files(self) -> tuple[DataFile, ...]:
        return (*_there(self.log), *self.outputs)

    @property
    def outputs(self) -> tuple[DataFile, ...]:
        return (self.output, *_there(self.late))

    def to_json(self) -> dict[str, Any]:
        return {
            "progress": progress_to_json(self.progress),
            "types": types_to_json(self.types),
            "clock_us": self.clock_us,
            "counts": dict(self.counts),
            "mode": self.mode,
            "log": file_to_json(self.log),
            "output": self.output.to_json(),
            "late": file_to_json(self.late),
            "event_columns": list(self.event_columns),
            "note": self.note,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Epoch:
        return Epoch(
            progress=progress_from_json(data["progress"]),
            types=types_from_json(data["types"]),
            clock_us=data["clock_us"],
            counts=data["counts"],
            mode=data["mode"],
            log=file_from_json(data["log"]),
            output=DataFile.from_json(data["output"]),
            late=file_from_json(data["late"]),
            event_columns=tuple(data["event_columns"]),
            note=data["note"],
        )


@dataclass(frozen=True)
class Call:
    name: str  # of the function
    rows: DataFile | None  # None: it changed nothing

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "rows": file_to_json(self.rows)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Call:
        return Call(data["name"], file_from_json(data["rows"]))

    @property
    def files(self) -> tuple[DataFile, ...]:
        return _there(self.rows)


@dataclass(frozen=True)
class Advance:
    progress: Progress  # after it
    rows: DataFile | None  # None: it changed nothing

    def to_json(self) -> dict[str, Any]:
        return {"progress": progress_to_json(self.progress), "rows": file_to_json(self.rows)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Advance:
        return Advance(progress_from_json(data["progress"]), file_from_json(data["rows"]))

    @property
    def files(self) -> tuple[DataFile, ...]:
        return _there(self.rows)


@dataclass(frozen=True)
class Snapshot:
    of: int  # the record whose state it is
    sha256: str  # of that record
    bind: Bind
    progress: Progress
    types: Mapping[str, Type]
    rows: DataFile | None  # None: there were none

    def to_json(self) -> dict[str, Any]:
        return {
            "of": self.of,
            "sha256": self.sha256,
            "bind": self.bind.to_json(),
            "progress": progress_to_json(self.progress),
            "types": types_to_json(self.types),
            "rows": file_to_json(self.rows),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Snapshot:
        return Snapshot(
            data["of"],
            data["sha256"],
            Bind.from_json(data["bind"]),
            progress_from_json(data["progress"]),
            types_from_json(data["types"]),
            file_from_json(data["rows"]),
        )

    @property
    def files(self) -> tuple[DataFile, ...]:
        return _there(self.rows)


Body = Bind | Load | Epoch | Call | Advance | Snapshot
KINDS: dict[str, type[Body]] = {
    "bind": Bind, "load": Load, "epoch": Epoch, "call": Call, "advance": Advance, "snapshot": Snapshot,
}  # fmt: skip
_NAMES = {kind: name for name, kind in KINDS.items()}


@dataclass(frozen=True)
class Record:
    number: int
    previous: str  # SHA-256 of the record before; empty for the first
    state: str
    writer: str
    written_us: int
    body: Body
    sha256: str = field(default="", compare=False)

    @property
    def kind(self) -> str:
        return _NAMES[type(self.body)]

    @property
    def file(self) -> str:
        return record_file(self.number)

    def encoded(self) -> tuple[Record, bytes]:
        """The record with its checksum, and the bytes of its file."""
        head = {
            "format": FORMAT,
            "number": self.number,
            "kind": self.kind,
            "previous": self.previous,
            "state": self.state,
            "writer": self.writer,
            "written_us": self.written_us,
        }
        text = json.dumps({**head, self.kind: self.body.to_json()}, separators=(",", ":")).encode()
        sha256 = hashlib.sha256(text).hexdigest()
        return replace(self, sha256=sha256), b"%s\n%s\n" % (text, sha256.encode())


def _there(file: DataFile | None) -> tuple[DataFile, ...]:
    return () if file is None else (file,)


def record_file(number: int) -> str:
    return f"{FOLDER}/{number:012}.json"


def record_numbers(names: Iterable[str]) -> list[int]:
    return sorted(int(found[1]) for name in names if (found := NAME.fullmatch(name)))


def decode_record(data: bytes, file: str, number: int) -> Record:
    """A record from the bytes of its file; `file` is for messages."""
    text, _, rest = data.partition(b"\n")
    sha256 = hashlib.sha256(text).hexdigest()
    if rest != sha256.encode() + b"\n":
        cut = "is cut" if len(rest) < 65 else "is damaged: its checksum is wrong"
        raise StateError(
            f"{file} {cut}. Nothing was changed. A crash can't leave it so, unless the engine ran with fsync=False or "
            f"the disk lies about what it wrote: put it back from a copy of the directory"
        )
    try:
        head = json.loads(text)
        if head["format"] != FORMAT:
            raise StateError(
                f"{file} has format {head['format']!r}, and this version of morphspark knows format {FORMAT}; open the "
                f"directory with the version that wrote it, or a newer one"
            )
        body = KINDS[head["kind"]].from_json(head[head["kind"]])
        record = Record(
            head["number"], head["previous"], head["state"], head["writer"], head["written_us"], body, sha256
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StateError(f"{file} is no record of morphspark: {error!r}; it was not written by it") from None
    if record.number != number:
        raise StateError(
            f"{file} says that it is record {record.number}; a copy of another one. Put the right one back"
        )
    return record


def progress_to_json(progress: Progress) -> dict[str, Any]:
    last_key = None if progress.last_key is None else list(progress.last_key)
    return {
        "next_epoch": progress.epoch,
        "watermark": progress.watermark,
        "last_key": last_key,
        "clock": progress.clock,
        "last_event": progress.last_event,
        **({"calls": progress.calls} if progress.calls else {}),
    }


def progress_from_json(data: Mapping[str, Any]) -> Progress:
    last_key = None if data["last_key"] is None else tuple(data["last_key"])
    calls = data.get("calls", 0)
    return Progress(data["next_epoch"], data["watermark"], last_key, data["clock"], data["last_event"], calls)


def types_to_json(kinds: Mapping[str, Type]) -> dict[str, str]:
    return {name: str(kind) for name, kind in kinds.items()}


def types_from_json(data: Mapping[str, str]) -> dict[str, Type]:
    return {name: types.parse(text, f"event column {name!r}") for name, text in data.items()}
