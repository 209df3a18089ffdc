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


def rate(events_per_s: float | None) -> str:
    """12.3 M, 450 k; a dash where nothing was measured."""
    if events_per_s is None:
        return "–"
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if events_per_s >= size:
            shown = events_per_s / size
            return (
                f"{shown:.2f} {unit}" if shown < 10 else f"{shown:.1f} {unit}" if shown < 100 else f"{shown:.0f} {unit}"
            )
    return f"{events_per_s:.0f}"
