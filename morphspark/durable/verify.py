"""Every checksum of a state directory, and every link of its chain of records. Goes on behind what is damaged, so
that one look names all files that must be put back.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import StateError
from .files import DataFile, checked, read_section
from .history import behind_last_gap, check_chain, read_history, read_record
from .records import FOLDER, Epoch, Record, record_numbers
from .store import Store


def problems(store: Store) -> Iterator[str]:
    """What is wrong, as text that names the file; nothing if all is right, or if there is no state."""
    numbers = record_numbers(store.files(FOLDER))
    records: list[Record] = []
    intact = True
    for number in range(behind_last_gap(numbers), numbers[-1] + 1) if numbers else ():
        try:
            records.append(read_record(store, number))
            check_chain(store, [one for one in records[-2:] if one.number >= number - 1])
        except FileNotFoundError:
            pass  # deleted in this moment, by a writer's retention
        except StateError as error:
            intact = False
            yield str(error)
    if intact:
        try:
            read_history(store)
        except StateError as error:
            yield str(error)
    epochs = [record for record in records if isinstance(record.body, Epoch)]
    for record in records:
        yield from _of_files(store, record, is_last=record in epochs[-1:])


def _of_files(store: Store, record: Record, is_last: bool) -> Iterator[str]:
    outputs = record.body.outputs if isinstance(record.body, Epoch) else ()
    for file in record.body.files:
        if file in outputs and not is_last and not _exists(store, file.name):
            continue  # of an old epoch: deleted by retention
        try:
            _read(store, file, file in outputs)
        except StateError as error:
            if _exists(store, record.file):  # else both are gone, by a writer's retention
                what = f"epoch {record.body.epoch}" if isinstance(record.body, Epoch) else record.kind
                yield f"{error} (it belongs to {record.file}, {what})"


def _read(store: Store, file: DataFile, is_output: bool) -> None:
    for section in file.sections:
        if is_output:
            checked(store, file, section)
        else:
            read_section(store, file, section)


def _exists(store: Store, name: str) -> bool:
    folder, _, file = name.partition("/")
    return file in store.files(folder)
