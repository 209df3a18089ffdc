"""What may be deleted: what no epoch that is kept, no recovery and no repetition needs.

    … 41 epoch   42 epoch   43 snapshot of 41   44 epoch   45 epoch        retain_epochs=2
      ▲                                         ▲
      the newest snapshot that is not newer     the oldest epoch that stays readable
      than that epoch begins here: keep from here on

A record goes before its data files, and the deletion of records is made durable before that of data files begins: so
a record that is there has its files, whatever crash comes in between. The exception are outputs: those of epochs
before the kept ones go at once, as nobody will ask for them.
"""

from __future__ import annotations

from itertools import islice, takewhile

from .history import History
from .records import Epoch, Record


def superfluous(history: History, retain_epochs: int) -> list[Record]:
    """Records in front that nothing needs any more."""
    target = _oldest_kept(history, retain_epochs)
    base = next((snapshot.of for _, snapshot in history.snapshots(target)), 0)
    return list(takewhile(lambda record: record.number < base, history.records))


def with_old_output(history: History, retain_epochs: int, behind: int) -> list[Record]:
    """Epochs behind a record whose output will not be handed over again."""
    target = _oldest_kept(history, retain_epochs)
    newer = takewhile(lambda record: record.number > behind, reversed(history.records))
    return [record for record in newer if isinstance(record.body, Epoch) and record.number < target]


def _oldest_kept(history: History, retain_epochs: int) -> int:
    """The record of the oldest epoch that is kept; without epochs, the newest record."""
    newest = (one.number for one in reversed(history.records) if isinstance(one.body, Epoch))
    kept = list(islice(newest, retain_epochs))
    return kept[-1] if kept else history.last.number
