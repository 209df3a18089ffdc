"""The records that are there: read in order, each checked against the one before.

What a crash can leave is cut without a word: files under unfinished names, data files that no record names, and
records in front of a gap that a snapshot behind the gap makes superfluous (a deletion that did not end). What a crash
can't leave is an error that names the file: a record that is cut, damaged, missing, or of another directory.
Cut, too, is one in front that the next does not follow, if a snapshot makes it superfluous: a writer that slept while
its successor's retention went by may have created it, and has stopped then (journal.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from ..errors import EpochError, StateError
from .files import data_files
from .records import FOLDER, Bind, Epoch, Record, Snapshot, decode_record, record_file, record_numbers
from .store import Store

T = TypeVar("T")
READ_TRIES = 5  # a writer's retention may delete what was just listed


@dataclass(frozen=True)
class Start:
    """Where recovery begins: behind a snapshot, or with the first record."""

    snapshot: Snapshot | None
    bind: Bind
    first: int  # the number of the record to apply first


class History:
    """Consecutive records, the oldest first. Its one writer adds and cuts; readers make their own."""

    def __init__(self, store: Store, records: list[Record]):
        self.store = store
        self.records = records
        self._bind: Bind | None = None  # found, and kept up to date by `add`

    def copy(self) -> History:
        """For a reader, while the writer goes on."""
        return History(self.store, list(self.records))

    def add(self, record: Record) -> None:
        self.records.append(record)
        if isinstance(record.body, Bind):
            self._bind = record.body

    @property
    def last(self) -> Record:
        return self.records[-1]

    @property
    def first_number(self) -> int:
        return self.records[0].number

    def record(self, number: int) -> Record:
        return self.records[number - self.first_number]

    def after(self, number: int) -> list[Record]:
        return self.records[number + 1 - self.first_number :]

    def snapshots(self, until: int) -> Iterator[tuple[Record, Snapshot]]:
        """Those of a state not newer than record `until`, the newest first."""
        for record in reversed(self.records):
            body = record.body
            if isinstance(body, Snapshot) and self.first_number - 1 <= body.of <= until:
                yield record, body

    def starts(self, until: int) -> Iterator[Start]:
        """Every way to come to the state after record `until`, the shortest first."""
        for _, snapshot in self.snapshots(until):
            yield Start(snapshot, snapshot.bind, snapshot.of + 1)
        first = self.records[0]
        if first.number == 0 and isinstance(first.body, Bind):
            yield Start(None, first.body, 1)

    def bind(self) -> Bind:
        """What the directory belongs to now."""
        if self._bind is None:
            found = (one.body for one in reversed(self.records) if isinstance(one.body, Bind | Snapshot))
            newest = next(found)  # a history begins with a bind record, or holds a snapshot
            self._bind = newest if isinstance(newest, Bind) else newest.bind
        return self._bind

    def epochs(self) -> list[Record]:
        return [record for record in self.records if isinstance(record.body, Epoch)]

    def last_epoch(self) -> Record | None:
        return next((one for one in reversed(self.records) if isinstance(one.body, Epoch)), None)

    def of_epoch(self, epoch: int) -> Record:
        """The record of an epoch whose state can be had."""
        for record in reversed(self.records):
            if isinstance(record.body, Epoch) and record.body.epoch == epoch:
                if next(self.starts(record.number), None) is not None:
                    return record
                break
        kept = [one.body.epoch for one in self.epochs() if next(self.starts(one.number), None) is not None]
        span = f"epochs {kept[0]} to {kept[-1]} are kept" if kept else "no epoch is committed yet"
        raise EpochError(
            f"the state after epoch {epoch} is not there: {span} in {self.store.location}. "
            f"Config(retain_epochs=…) says how many stay readable"
        )


def read_history(store: Store) -> History | None:
    """All records, checked; None if the directory is new."""
    for left in reversed(range(READ_TRIES)):
        numbers = record_numbers(store.files(FOLDER))
        if not numbers:
            _refuse_headless(store)
            return None
        first = behind_last_gap(numbers)
        try:
            records = [read_record(store, number) for number in range(first, numbers[-1] + 1)]
        except FileNotFoundError as error:
            if not left:
                raise StateError(f"{store.location}: {error}; the directory changes faster than it is read") from None
            continue
        if len(records) > 1 and records[1].previous != records[0].sha256 and _stands_alone(store, records[1:]):
            records, first = records[1:], first + 1
        check_chain(store, records)
        if not _stands_alone(store, records):
            raise StateError(
                f"{store.location}/{record_file(first - 1)} is missing, and no later snapshot makes it superfluous. "
                f"Nothing was changed. Put the file back from a copy of the directory"
            )
        return History(store, records)
    raise AssertionError("not reached")


def _stands_alone(store: Store, records: list[Record]) -> bool:
    """Whether the state can be had from these records."""
    return next(History(store, records).starts(records[-1].number), None) is not None


def beside_a_writer(history: History, look: Callable[[History], T]) -> tuple[History, T]:
    """Look at what is there; where a writer's retention deletes it meanwhile, look again at what is there then."""
    for _ in range(READ_TRIES):
        try:
            return history, look(history)
        except StateError:
            newer = read_history(history.store)
            if newer is None or newer.first_number == history.first_number:
                raise  # nothing was deleted: it is as bad as it looks
            history = newer
    return history, look(history)


def read_more(history: History) -> list[Record] | None:
    """Records that were added since; None if the log was cut behind what is known, so that all must be read anew."""
    store, last = history.store, history.last
    numbers = [number for number in record_numbers(store.files(FOLDER)) if number >= last.number]
    if numbers == [last.number]:
        return [] if read_record(store, last.number).sha256 == last.sha256 else None
    added = [number for number in numbers if number > last.number]
    if not added or added[0] != last.number + 1:
        return None
    records = [last, *(read_record(store, number) for number in range(added[0], added[-1] + 1))]
    check_chain(store, records)
    return records[1:]


def read_record(store: Store, number: int) -> Record:
    file = record_file(number)
    return decode_record(bytes(store.read(file)), f"{store.location}/{file}", number)


def behind_last_gap(numbers: list[int]) -> int:
    first = numbers[-1]
    for number in reversed(numbers[:-1]):
        if number != first - 1:
            break
        first = number
    return first


def check_chain(store: Store, records: list[Record]) -> None:
    for before, record in zip(records, records[1:], strict=False):
        file = f"{store.location}/{record.file}"
        if record.state != before.state:
            raise StateError(
                f"{file} belongs to another state directory (id {record.state}; this is {before.state}). Nothing was "
                f"changed. Put the right file back"
            )
        if record.previous != before.sha256:
            raise StateError(
                f"{file} does not follow {before.file}: one of the two was replaced. Nothing was changed. Put the "
                f"right files back from a copy of the directory"
            )


def _refuse_headless(store: Store) -> None:
    if data_files(store):
        raise StateError(
            f"{store.location} has data files but no records in {FOLDER}/: they were deleted or moved. Nothing was "
            f"changed. Put {FOLDER}/ back, or name another folder to start anew"
        )
