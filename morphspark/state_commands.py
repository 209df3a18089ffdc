"""`morphspark state ls|show|export|verify PATH`: what a state directory holds, without the app that made it.

All of them only read, and may run beside a query that writes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa

from .durable.directory import StateDirectory
from .durable.history import read_history
from .durable.records import Bind, Call, Epoch, Load, Record
from .durable.store import open_store
from .durable.verify import problems
from .errors import ConfigError, StateError
from .program import TableSpec
from .progress import bytes_text

DAMAGED = 1  # exit code of verify
FORMATS = ("parquet", "csv")


def add_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="command")
    for action in (ls, show, export, verify):
        summary = (action.__doc__ or "").split("\n")[0]
        command = commands.add_parser(action.__name__, help=summary, description=action.__doc__)
        command.add_argument("path", help="the state directory, or the URL of one in an object store")
        command.set_defaults(action=action)
        if action in (show, export):
            command.add_argument("--table", help="one table (default: all)")
            command.add_argument("--epoch", type=int, help="the state right after this epoch (default: the newest)")
        if action is show:
            command.add_argument("--rows", type=int, default=20, help="rows of each table (default: 20)")
        if action is export:
            command.add_argument("to", help="a folder; each table becomes a file in it")
            command.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="default: %(default)s")


def ls(options: argparse.Namespace) -> int:
    """What it belongs to, its tables, and all records: epochs, snapshots, their sizes."""
    state = StateDirectory(options.path)
    bind, records, epochs = state.bind, state.records, state.epochs
    committed = state.history.last_epoch()
    last = f"{committed.body.epoch} is the last" if committed and isinstance(committed.body, Epoch) else "none yet"
    readable = f"; {epochs[0]} to {epochs[-1]} can be read" if epochs else ""
    print(f"{state.store.location}")
    print(f"  app       {bind.app}, program {bind.program.hash[:12]}")
    print(f"  query     {bind.query or 'none has used it yet'}")
    print(f"  state id  {records[0].state}")
    print(f"  epochs    {last}{readable}")
    kept = state.store.files("data")
    print(f"  size      {len(records)} records, {bytes_text(sum(_bytes(kept, record) for record in records))} of data")
    for table in state.tables:
        print(f"  table     {_declared(table)}")
    print("\nrecord  kind      written (UTC)              size  what")
    for record in records:
        written = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.written_us / 1e6))
        size = bytes_text(_bytes(kept, record))
        print(f"{record.number:>6}  {record.kind:<8}  {written}  {size:>9}  {_what(record.body)}")
    return 0


def show(options: argparse.Namespace) -> int:
    """Rows of its tables, now or right after an epoch."""
    state = StateDirectory(options.path)
    for number, name in enumerate(_chosen(state, options)):
        rows = state.table(name, options.epoch)
        shown = _sorted(rows, _key_names(state, name)).slice(0, options.rows)
        print(f"{chr(10) if number else ''}{name}: {rows.num_rows:,} rows")
        if shown.num_rows:
            print(shown.to_pandas().to_string(index=False))
        if shown.num_rows < rows.num_rows:
            print(f"… {rows.num_rows - shown.num_rows:,} more; --rows says how many are shown")
    return 0


def export(options: argparse.Namespace) -> int:
    """Tables as Parquet or CSV files, now or right after an epoch. Overwrites nothing."""
    state = StateDirectory(options.path)
    folder = Path(options.to)
    for name in _chosen(state, options):
        file = folder / f"{name}.{options.format}"
        if file.exists():
            raise ConfigError(f"{file} is there already; delete it, or name another folder")
        rows = _sorted(state.table(name, options.epoch), _key_names(state, name))
        folder.mkdir(parents=True, exist_ok=True)
        _write(rows, file, options.format)
        print(f"{file}  {rows.num_rows:,} rows, {bytes_text(file.stat().st_size)}")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Check every checksum and the chain of records; exit code 1 and the files' names if anything is wrong."""
    store = open_store(options.path)
    found = 0
    for problem in problems(store):
        found += 1
        print(problem, file=sys.stderr)
    if found:
        print(f"{found} problem{'s' if found > 1 else ''} in {store.location}")
        return DAMAGED
    history = read_history(store)
    if history is None:
        raise StateError(f"{store.location} holds no state of morphspark: it has no records in log/")
    files = sum(len(record.body.files) for record in history.records)
    print(f"{store.location}: {len(history.records)} records and their {files} files are as they were written")
    return 0


# ------------------------------------------------------------------------------------------------------------- details


def _chosen(state: StateDirectory, options: argparse.Namespace) -> list[str]:
    return [options.table] if options.table else [table.name for table in state.tables]


def _declared(table: TableSpec) -> str:
    key, columns = (", ".join(f"{name} {kind}" for name, kind in part) for part in (table.key, table.columns))
    return f"{table.name}: {key} → {columns}"


def _key_names(state: StateDirectory, table: str) -> list[str]:
    return [name for spec in state.tables if spec.name == table for name, _ in spec.key]


def _sorted(rows: pa.Table, keys: list[str]) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in keys]) if keys else rows


def _write(rows: pa.Table, file: Path, kind: str) -> None:
    """Under another name first: a file that has its name is whole."""
    unfinished = file.with_name(f".{file.name}.unfinished")
    try:
        if kind == "csv":
            import pyarrow.csv

            pyarrow.csv.write_csv(rows, unfinished)
        else:
            import pyarrow.parquet

            pyarrow.parquet.write_table(rows, unfinished, compression="zstd")
        os.replace(unfinished, file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _bytes(kept: Collection[str], record: Record) -> int:
    """Of its files that are still there; retention deletes outputs before records."""
    return sum(file.length for file in record.body.files if file.name.partition("/")[2] in kept)


def _what(body: Any) -> str:
    if isinstance(body, Bind):
        return f"app {body.app}, query {body.query or 'none yet'}"
    if isinstance(body, Load):
        return f"{_rows(body.rows):,} rows of {body.table}"
    if isinstance(body, Call):
        return f"{body.name}: {_rows(body.rows):,} rows changed"
    if isinstance(body, Epoch):
        counts = ", ".join(f"{count:,} {name}" for name, count in body.counts.items() if count)
        return f"epoch {body.epoch} ({body.mode}): {counts or 'no events'}"
    return f"{_rows(body.rows):,} rows as record {body.of} left them"


def _rows(file: Any) -> int:
    return sum(section.rows for section in file.sections) if file is not None else 0
