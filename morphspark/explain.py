"""`engine.explain(events)`: the task precedence graph of a batch, for people.

print(explanation)          counts, critical path, the decision and why
explanation.speedup(8)      at most so many times faster on 8 cores than on one
explanation.dot()           Graphviz, for small batches; `_repr_html_` draws the same picture in a notebook
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from .config import Config
from .program import Program

UNPLANNED = "not planned: events run one by one (serial)"
NO_TYPE = 0xFFFF
_CELL_W, _CELL_H, _GAP_X, _GAP_Y = 132, 34, 16, 36


class Explanation:
    """What the graph looks like. `counts` has every figure by name; None where the engine plans nothing."""

    def __init__(self, program: Program, config: Config, found: Mapping[str, Any] | None):
        self._program = program
        self._config = config
        self.counts = None if found is None else dict(found)

    def speedup(self, cores: int) -> float:
        """Work divided by the time that `cores` need at least: the longer of the critical path and an equal share."""
        if self.counts is None or not self.counts["operations"]:
            return 1.0
        work = self.counts["operations"]
        return work / max(self.counts["span"], work / cores)

    @property
    def decision(self) -> str:
        if self.counts is None:
            return "serial"
        configured = self._config.strategy
        if not isinstance(configured, str):
            return "nested"
        return str(self.counts["strategy"]) if configured == "auto" else configured

    def __str__(self) -> str:
        found = self.counts
        if found is None:
            return UNPLANNED
        strata: Sequence[int] = found["strata"]
        widest = max(strata, default=0)
        lines = [
            f"{found['transactions']:,} transactions, {found['operations']:,} operations "
            f"({found['reads']:,} read, {found['writes']:,} write), {found['aliases']:,} rows named twice",
            f"keys computed  by {found['roamers']:,} transactions, each of which runs alone",
            f"dependencies   TD {found['td']:,}   PD {found['pd']:,}   LD {found['ld']:,}",
            f"strata         {len(strata):,}, the widest has {widest:,} transactions",
            f"chains         {found['chains']:,}, the longest has {found['longest_chain']:,} operations; "
            f"{found['merged_chains']:,} are merged, as they wait for each other",
            f"waits for      {_degrees(found['degrees'])}",
            f"work / span    {found['operations']:,} / {found['span']:,} operations: at most "
            f"{self.speedup(2):.1f}x on 2 cores, {self.speedup(8):.1f}x on 8, {self.speedup(1 << 40):.1f}x on many",
            f"decision       {self.decision}: {self._why()}",
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _why(self) -> str:
        assert self.counts is not None
        if self._config.strategy != "auto":
            configured = self._config.strategy
            each = "" if isinstance(configured, str) else ", ".join(f"{k} {v}" for k, v in configured.items())
            return f"configured: {each}" if each else "configured"
        why = str(self.counts["why"])
        predicted = self.counts["predicted_ms"]
        batch = f"in batches of {self.counts['batch']:,}"
        return f"{why}; {batch}" + (f", {predicted:.2f} ms each expected" if predicted else "")

    # -- pictures

    def dot(self) -> str:
        """Graphviz: a box per operation, a cluster per transaction, an arrow per TD. Empty for large batches."""
        lines = ["digraph tpg {", "  rankdir=LR; node [shape=box, fontsize=10];"]
        for task, name in enumerate(self._names()):
            lines.append(f'  subgraph cluster_{task} {{ label="{task} {_quoted(name)}"; fontsize=10;')
            for number, (owner, label, _) in enumerate(self._boxes()):
                if owner == task:
                    lines.append(f'    o{number} [label="{_quoted(label)}"];')
            lines.append("  }")
        for number, (_, _, previous) in enumerate(self._boxes()):
            if previous >= 0:
                lines.append(f"  o{previous} -> o{number};")
        return "\n".join([*lines, "}"])

    def _repr_html_(self) -> str:
        text = f"<pre>{html.escape(str(self))}</pre>"
        return text + self._svg() if self.counts and self.counts["accesses"] else text

    def _names(self) -> list[str]:
        if self.counts is None:
            return []
        named = [one.name for one in self._program.transactions]
        return ["-" if kind == NO_TYPE else named[kind] for kind in self.counts["types"]]

    def _boxes(self) -> list[tuple[int, str, int]]:
        """(transaction, label, the box before it or -1) of every operation."""
        if self.counts is None:
            return []
        tables = [table.name for table in self._program.tables]
        return [
            (task, f"{'w' if writes else 'r'} {tables[table]}[{key.decode(errors='replace')}]", previous)
            for task, table, writes, previous, key in self.counts["accesses"]
        ]

    def _svg(self) -> str:
        """Transactions from left to right by stratum, their operations below each other."""
        boxes, names = self._boxes(), self._names()
        level = [0] * len(names)
        for task, _, previous in boxes:
            if previous >= 0:
                level[task] = max(level[task], level[boxes[previous][0]] + 1)
        place: dict[int, tuple[int, int]] = {}
        heights: dict[int, int] = {}
        titles = []
        for task, name in enumerate(names):
            x = level[task] * (_CELL_W + _GAP_X * 3) + _GAP_X
            y = heights.get(level[task], 0) + _GAP_Y
            titles.append(f'<text x="{x}" y="{y - 6}" font-size="11" fill="#555">{task} {html.escape(name)}</text>')
            for number, (owner, _, _) in enumerate(boxes):
                if owner == task:
                    place[number] = (x, y)
                    y += _CELL_H
            heights[level[task]] = y
        shapes, arrows = [], []
        for number, (_, label, previous) in enumerate(boxes):
            x, y = place[number]
            fill = "#fde8d7" if label.startswith("w") else "#dcebfa"
            shown = html.escape(label if len(label) <= 20 else label[:19] + "…")
            shapes.append(
                f'<rect x="{x}" y="{y}" width="{_CELL_W}" height="{_CELL_H - 6}" rx="4" fill="{fill}" stroke="#999"/>'
                f'<text x="{x + 6}" y="{y + 18}" font-size="11">{shown}</text>'
            )
            if previous >= 0:
                from_x, from_y = place[previous]
                arrows.append(
                    f'<line x1="{from_x + _CELL_W}" y1="{from_y + 14}" x2="{x}" y2="{y + 14}" stroke="#555" '
                    f'marker-end="url(#tip)"/>'
                )
        width = (max(level, default=0) + 1) * (_CELL_W + _GAP_X * 3) + _GAP_X
        height = max(heights.values(), default=0) + _GAP_Y
        tip = '<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
        tip += '<path d="M0,0 L7,3 L0,6 z" fill="#555"/></marker>'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"><defs>{tip}</defs>'
            + "".join([*arrows, *shapes, *titles])
            + "</svg>"
        )


def _degrees(counts: Sequence[int]) -> str:
    """How many transactions wait for how many accesses."""
    spans = ["0", "1", *(f"{1 << i}-{(2 << i) - 1}" for i in range(1, max(len(counts), 2)))]
    return ", ".join(f"{span}: {count:,}" for span, count in zip(spans, counts, strict=False) if count)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
