"""Data files: written once, never changed, named by one record each, and deleted with it.

    data file  = section*                               data/<32 hexadecimal digits>.arrow
    section    = Arrow IPC stream, its buffers lz4      one table's rows, or a command's columns
    output     = Parquet, lz4                           data/<32 hexadecimal digits>.parquet, one section

A record says of every section where it lies, its length, its SHA-256 and its rows. Both are checked before anything
is parsed, and Arrow is validated in full before anybody uses it. SHA-256 because it is in Python's standard library,
runs without the GIL at 1.7 GB/s on processors of today, and a record's own can't be forged by chance or on purpose.
lz4 because epochs wait for it: zstd makes files a third smaller, and takes twice as long to write and three times to
read.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import SchemaError, StateError
from .store import Store, Writer

FOLDER = "data"
NAME = re.compile(rf"{FOLDER}/[0-9a-f]{{32}}\.(arrow|parquet)")
_IPC = pa.ipc.IpcWriteOptions(compression="lz4")
# Columns of an output in which the same few values come again and again.
FEW_VALUES = ("_status", "_reason", "_epoch", "_kind")
# Large epochs are cut into groups that Spark's tasks can read in parallel.
ROW_GROUP_ROWS = 1 << 17
OUTPUT = "output"  # the one section of an output
PIECE_BYTES = 1 << 20  # of an output that is written in parts


@dataclass(frozen=True)
class Section:
    name: str  # of the table; or what it is
    rows: int
    offset: int
    length: int
    sha256: str


@dataclass(frozen=True)
class DataFile:
    name: str
    sections: tuple[Section, ...]

    @property
    def length(self) -> int:
        return sum(section.length for section in self.sections)

    def to_json(self) -> dict[str, Any]:
        sections = [[one.name, one.rows, one.offset, one.length, one.sha256] for one in self.sections]
        return {"name": self.name, "length": self.length, "sections": sections}

    @staticmethod
    def from_json(data: dict[str, Any]) -> DataFile:
        file = DataFile(data["name"], tuple(Section(*one) for one in data["sections"]))
        if not NAME.fullmatch(file.name) or data["length"] != file.length or not _is_contiguous(file.sections):
            raise ValueError(f"not a data file: {data['name']!r}")
        return file


def _is_contiguous(sections: Sequence[Section]) -> bool:
    end = 0
    for one in sections:
        if one.offset != end or one.length < 0 or one.rows < 0:
            return False
        end += one.length
    return True


# ------------------------------------------------------------------------------------------------------------- writing


class DataWriter:
    """A data file that is written section by section."""

    def __init__(self, store: Store, ending: str = "arrow"):
        self._name = f"{FOLDER}/{uuid.uuid4().hex}.{ending}"
        self._writer: Writer = store.create(self._name)
        self._sections: list[Section] = []
        self._length = 0  # of all that was written
        self._hash = hashlib.sha256()  # of the section that is under way

    def write(self, data: Any) -> None:
        """Bytes of the section that is under way."""
        self._writer.write(data)
        self._hash.update(data)
        self._length += memoryview(data).nbytes

    def end_section(self, name: str, rows: int) -> None:
        begin = sum(one.length for one in self._sections)
        self._sections.append(Section(name, rows, begin, self._length - begin, self._hash.hexdigest()))
        self._hash = hashlib.sha256()

    def add(self, name: str, rows: int, data: Any) -> None:
        self.write(data)
        self.end_section(name, rows)

    def add_rows(self, name: str, rows: pa.RecordBatch) -> None:
        self.add(name, rows.num_rows, encode(rows))

    def finish(self) -> DataFile:
        self._writer.finish()
        return DataFile(self._name, tuple(self._sections))

    def discard(self) -> None:
        self._writer.discard()


def encode(rows: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_IPC) as writer:
        writer.write_batch(rows)
    return sink.getvalue()


def write_rows(store: Store, sections: Sequence[tuple[str, pa.RecordBatch]]) -> DataFile | None:
    """All sections of a data file, durable but for its name in the folder; no file if there are none."""
    if not sections:
        return None
    writer = DataWriter(store)
    try:
        for name, rows in sections:
            writer.add_rows(name, rows)
        return writer.finish()
    except BaseException:
        writer.discard()
        raise


def write_output(store: Store, rows: pa.Table) -> DataFile:
    data = encode_output(rows)
    writer = DataWriter(store, "parquet")
    try:
        writer.add(OUTPUT, rows.num_rows, data)
        return writer.finish()
    except BaseException:
        writer.discard()
        raise


def encode_output(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    try:
        with _parquet(sink, rows.schema) as writer:
            writer.write_table(rows, ROW_GROUP_ROWS)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise SchemaError(f"{_unwritable(rows)}: a durable epoch keeps its output as Parquet: {error}") from None
    return sink.getvalue()


def _parquet(sink: Any, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        sink,
        schema,
        compression="lz4",
        use_dictionary=[name for name in FEW_VALUES if name in schema.names],
        write_statistics=False,  # every row is wanted: there is nothing to skip by
    )


class OutputWriter:
    """An output that is written in parts. Whatever it raises, it must be discarded then."""

    def __init__(self, store: Store, schema: pa.Schema):
        self.schema, self.rows = schema, 0
        self._file = DataWriter(store, "parquet")
        self._encoded = _Encoded()
        self._stream: pa.NativeFile | None = None
        self._parquet: pq.ParquetWriter | None = None

    def add(self, rows: pa.Table) -> None:
        if self._parquet is None:
            self._stream = pa.BufferedOutputStream(pa.PythonFile(self._encoded, "w"), PIECE_BYTES)
            self._parquet = _parquet(self._stream, self.schema)
        self._parquet.write_table(rows, ROW_GROUP_ROWS)
        self.rows += rows.num_rows
        self._write_encoded()

    def finish(self) -> DataFile:
        assert self._parquet is not None and self._stream is not None
        self._parquet.close()
        self._stream.flush()
        self._write_encoded()
        self._file.end_section(OUTPUT, self.rows)
        return self._file.finish()

    def _write_encoded(self) -> None:
        for piece in self._encoded.take():
            self._file.write(piece)

    def discard(self) -> None:
        self._file.discard()


class _Encoded:
    """What Arrow writes into; on its way to the file, which only we write, so that errors are ours, too."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        self._length += len(data)
        return len(data)

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def take(self) -> list[bytes]:
        pieces, self._pieces = self._pieces, []
        return pieces


def _unwritable(rows: pa.Table) -> str:
    for field in rows.schema:
        try:
            pq.write_table(rows.select([field.name]), pa.BufferOutputStream())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            return f"column {field.name!r} ({field.type}) can't be stored; drop or cast it before"
    return "the result can't be stored"


# ------------------------------------------------------------------------------------------------------------- reading


def read_section(store: Store, file: DataFile, section: Section) -> pa.Table:
    return decode(store, file, section, checked(store, file, section))


def checked(store: Store, file: DataFile, section: Section) -> Any:
    """The bytes of a section, if they are those that were written."""
    try:
        data = store.read(file.name, section.offset, section.length)
    except FileNotFoundError:
        raise StateError(damaged(store, file.name, "is missing")) from None
    if memoryview(data).nbytes != section.length:
        found = section.offset + memoryview(data).nbytes
        raise StateError(damaged(store, file.name, f"is cut: {found} bytes, expected {file.length}"))
    if hashlib.sha256(data).hexdigest() != section.sha256:
        raise StateError(damaged(store, file.name, f"is damaged: the checksum of its part {section.name!r} is wrong"))
    return data


def decode(store: Store, file: DataFile, section: Section, data: Any) -> pa.Table:
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            rows = reader.read_all()
        rows.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise StateError(
            damaged(store, file.name, f"is no valid Arrow in its part {section.name!r}: {error}")
        ) from None
    if rows.num_rows != section.rows:
        raise StateError(damaged(store, file.name, f"has {rows.num_rows} rows in {section.name!r}, not {section.rows}"))
    return rows


def read_output(store: Store, file: DataFile) -> pa.Table:
    (section,) = file.sections
    data = checked(store, file, section)
    try:
        parquet = pq.ParquetFile(pa.BufferReader(data))
        rows = parquet.read()
        rows.validate(full=True)
        return _as_written(rows, _written_schema(parquet))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StateError(damaged(store, file.name, f"is no valid Parquet: {error}")) from None


def output_schema(store: Store, file: DataFile) -> pa.Schema:
    """The Arrow schema of an output; checks the whole file first."""
    return _written_schema(pq.ParquetFile(pa.BufferReader(checked(store, file, file.sections[0]))))


def _written_schema(parquet: pq.ParquetFile) -> pa.Schema:
    """Arrow writes it into the file's metadata, and itself does not follow all of it: names inside of lists, seconds,
    dates in milliseconds are not what they were."""
    found = (parquet.metadata.metadata or {}).get(b"ARROW:schema")
    if found is None:
        raise ValueError("it does not say of which Arrow types it was made")
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(found, validate=True)))


def _as_written(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    def column(name: str, kind: pa.DataType) -> pa.ChunkedArray:
        read = rows.column(name)
        return read if pa.field("", read.type).equals(pa.field("", kind), check_metadata=True) else read.cast(kind)

    return pa.table({field.name: column(field.name, field.type) for field in schema})


def file_to_json(file: DataFile | None) -> dict[str, Any] | None:
    return None if file is None else file.to_json()


def file_from_json(data: dict[str, Any] | None) -> DataFile | None:
    return None if data is None else DataFile.from_json(data)


def data_files(store: Store) -> list[str]:
    """All data files that are there, named by a record or not; what is not ours is left alone."""
    return [name for name in (f"{FOLDER}/{file}" for file in store.files(FOLDER)) if NAME.fullmatch(name)]


def damaged(store: Store, name: str, what: str) -> str:
    return (
        f"{store.location}/{name} {what}. Nothing was changed. Put the file back from a copy of the directory, if "
        f"there is one; `morphspark state verify` names all files that are damaged"
    )
