"""Tables for people: aligned text."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = cells
        aligned = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        return "  ".join(aligned).rstrip()

    return [line(header), *(line(row) for row in rows)]


def rate(events_per_s: float) -> str:
    """In three digits: 1.23 M, 12.3 M, 450 k."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if events_per_s >= size:
            shown = events_per_s / size
            digits = 2 if shown < 10 else 1 if shown < 100 else 0
            return f"{shown:.{digits}f} {unit}"
    return f"{events_per_s:.0f}"
