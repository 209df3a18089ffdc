"""What a running job shows: totals, a live line, percentiles."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

PLAIN_PERIOD_S = 5.0  # between two lines where no line can be refreshed


class Tally:
    """Sums over epochs. One thread adds, others may read."""

    def __init__(self) -> None:
        self.epochs: list[dict[str, Any]] = []
        self.events = self.committed = self.aborted = 0

    def add(self, progress: dict[str, Any]) -> None:
        self.events += progress["events"]
        self.committed += progress["committed"]
        self.aborted += progress["aborted"]
        self.epochs.append(progress)


class LiveLine:
    """One line that is refreshed on a terminal; elsewhere a line every few seconds."""

    def __init__(self, out: TextIO = sys.stdout):
        self._out = out
        self._terminal = out.isatty()
        self._width = 0
        self._shown_at = -PLAIN_PERIOD_S

    def show(self, text: str) -> None:
        if self._terminal:
            self._out.write("\r" + text.ljust(self._width))
            self._width = len(text)
        elif time.monotonic() - self._shown_at >= PLAIN_PERIOD_S:
            self._out.write(text + "\n")
            self._shown_at = time.monotonic()
        self._out.flush()

    def end(self) -> None:
        if self._terminal and self._width:
            self._out.write("\n")
            self._out.flush()


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def bytes_text(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
