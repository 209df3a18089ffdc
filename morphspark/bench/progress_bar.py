"""A bar on the terminal while a benchmark runs; nothing where there is none."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

CELLS = 24


class ProgressBar:
    """Steps of about equal length, each with a label; a context manager, which clears the line in the end."""

    def __init__(self, steps: int, out: TextIO | None = None):
        self._steps = max(1, steps)
        self._out = out or sys.stderr
        self._started = time.monotonic()
        self._begun = 0
        self._label = ""

    def step(self, label: str) -> None:
        """The next step begins."""
        self._begun += 1
        self._label = label
        self.within(0.0)

    def within(self, share: float) -> None:
        """So much of the step is done."""
        done = (self._begun - 1 + min(share, 1.0)) / self._steps
        cells = round(done * CELLS)
        self._draw(f"  [{'#' * cells}{'.' * (CELLS - cells)}] {100 * done:3.0f} %{self._left(done)}  {self._label}")

    def _left(self, done: float) -> str:
        spent = time.monotonic() - self._started
        return f", {spent / done - spent:.0f} s left" if done > 0.05 else ""

    def _draw(self, text: str) -> None:
        if self._out.isatty():
            self._out.write(f"\r\x1b[K{text[:110]}")
            self._out.flush()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._draw("")
        if self._out.isatty():
            self._out.write("\r")
