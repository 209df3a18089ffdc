"""`engine.explain(events)`: the task precedence graph of a batch, for people.

print(explanation)          counts, critical path, the decision and why
explanation.speedup(8)      at most so many times faster on 8 cores than on one
explanation.dot()           Graphviz, for small batches; `_repr_html_` draws the same picture in a notebook

An operation is what a transaction does to one row. Firings of triggers are not in the graph: when they happen depends
on the stream, not on a batch alone.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .config import Config
from .program import Program
from .strategy import as_whole

UNPLANNED = "not planned: events run one by one (serial)"
NO_TYPE = 0xFFFF
_PATH_SHOWN = 8
_CELL_W, _CELL_H, _GAP_X, _GAP_Y = 132, 34, 16, 36
_KINDS = {
    "TD": ("#555555", "", "waits for the latest earlier write of its row"),
    "PD": ("#b5482a", "5,3", "waits for the latest earlier write of a row that its value, condition or key reads"),
    "LD": ("#7a9a3a", "1,3", "aborts together with it"),
}  # colour, dashes, what an edge says


class _Box(NamedTuple):
    """An operation; others are named by their place in the list."""

    task: int
    label: str
    td: int  # -1: none
    pd: list[int]


class Explanation:
    """What the graph looks like. `counts` has every figure by name; None where the engine plans nothing."""

    def __init__(self, program: Program, config: Config, found: Mapping[str, Any] | None):
        self._program = program
        self._config = config
        self.counts = None if found is None else dict(found)

    def speedup(self, cores: int, whole: bool = False) -> float:
        """Work divided by the time that `cores` need at least: the longer of the critical path and an equal share.

        The path leads through operations; with `whole`, through whole transactions.
        """
        if self.counts is None or not self.counts["operations"]:
            return 1.0
        work = self.counts["operations"]
        return work / max(self.counts["transaction_span" if whole else "span"], work / cores)

    @property
    def decision(self) -> str:
        return "serial" if self.counts is None else str(self.counts["strategy"])

    def __str__(self) -> str:
        found = self.counts
        if found is None:
            return UNPLANNED
        strata: Sequence[int] = found["strata"]
        widest = max(strata, default=0)
        lines = [
            f"{found['transactions']:,} transactions, {found['operations']:,} operations "
            f"({found['reads']:,} read, {found['writes']:,} write), {found['aliases']:,} rows named twice",
            *self._cuts(),
            *self._unknown(),
            f"dependencies   TD {found['td']:,}   PD {found['pd']:,}   LD {found['ld']:,}",
            f"strata         {len(strata):,}, the widest has {widest:,} transactions",
            f"chains         {found['chains']:,}, the longest has {found['longest_chain']:,} operations"
            f"{self._hot_row()}{self._merged()}",
            f"waits for      {_degrees(found['degrees'])}",
            *self._spans(),
            *self._path(),
            f"decision       {self.decision}: {self._why()}",
        ]
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def critical_path(self) -> list[int]:
        """The transactions that wait for each other the longest, by their places in the order."""
        return [] if self.counts is None else [place for place, _ in self.counts["critical_path"]]

    def _cuts(self) -> list[str]:
        assert self.counts is not None
        at_once, all_of_them = self._config.punctuation, self.counts["transactions"]
        if isinstance(at_once, str) or at_once >= all_of_them:
            return []
        return [f"batches        of {at_once:,}: what follows is what all {all_of_them:,} would be as one"]

    def _hot_row(self) -> str:
        assert self.counts is not None
        if self.counts["longest_chain"] < 2:
            return ""
        table, key = self.counts["longest_chain_row"]
        return f" ({self._row(table, key)})"

    def _merged(self) -> str:
        assert self.counts is not None
        if self.counts["whole"]:
            return ""  # nothing runs by chains
        return f"; {self.counts['merged_chains']:,} are merged with others, as they wait for each other"

    def _spans(self) -> list[str]:
        assert self.counts is not None
        work, cut, whole = (f"{self.counts[name]:,}" for name in ("operations", "span", "transaction_span"))
        if self.counts["whole"]:
            return [f"work / span    {work} / {whole} operations, with whole transactions: {self._bounds(whole=True)}"]
        return [
            f"work / span    {work} / {cut} operations, as transactions are cut here: {self._bounds(whole=False)}",
            f"               {work} / {whole} with whole transactions: {self._bounds(whole=True)}",
        ]

    def _row(self, table: int, key: bytes) -> str:
        """A key is anybody's text: what can't be printed is written out."""
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in key.decode(errors="replace"))
        return f"{self._program.tables[table].name}[{text}]"

    def _path(self) -> list[str]:
        """Of the critical path its ends, if it is long."""
        assert self.counts is not None
        named = [f"{place} {self._name(kind)}" for place, kind in self.counts["critical_path"]]
        if len(named) < 2:
            return []
        shown = named if len(named) <= _PATH_SHOWN else [*named[: _PATH_SHOWN - 1], "…", named[-1]]
        return [f"critical path  {len(named):,} transactions: {' → '.join(shown)}"]

    def _name(self, kind: int) -> str:
        return "-" if kind == NO_TYPE else self._program.transactions[kind].name

    def _unknown(self) -> list[str]:
        """What the graph can't show."""
        assert self.counts is not None
        lines = []
        if roamers := self.counts["roamers"]:
            lines.append(
                f"keys computed  by {roamers:,} transactions: each stands here as if it ran alone. The rows behind "
                "such keys are found when the batch runs, and are not counted: spans and bounds may be far from true"
            )
        if foreseen := self.counts["foreseen"]:
            lines.append(
                f"keys computed  by {foreseen:,} transactions, of the state as it is now: the rows behind them are "
                "counted (not in PD), and will be others where the batch itself changes what the keys depend on"
            )
        if windows := self.counts["windows"]:
            lines.append(
                f"windows        read by {windows:,} transactions, which wait for the latest earlier write of each "
                "row; those that write nothing wait until all others have run"
            )
        if self._program.has_triggers:
            lines.append("triggers       their firings are not counted: when they happen depends on the stream")
        return lines

    def _bounds(self, whole: bool) -> str:
        few, more, many = (self.speedup(cores, whole) for cores in (2, 8, 1 << 40))
        return f"at most {few:.1f}x on 2 cores, {more:.1f}x on 8, {many:.1f}x on many"

    def _why(self) -> str:
        assert self.counts is not None
        why = str(self.counts["why"])
        configured = self._config.strategy
        if not isinstance(configured, str) and self.counts["plannable"]:
            ways = {name: as_whole(one) if self.counts["whole"] else one for name, one in configured.items()}
            return f"{why}: {', '.join(f'{name} {one}' for name, one in ways.items())}"
        if configured != "auto" or not self.counts["plannable"]:
            return why
        predicted, known = self.counts["predicted_ms"], self.counts["inputs"]
        words = [f"{why}; in batches of {self.counts['batch']:,}"]
        if predicted:
            words.append(f"{predicted:.2f} ms each expected")
        if known and known["serial_ns"]:
            words.append(f"an access took {known['serial_ns']:.0f} ns in order lately")
        if known and known["planning_ns"]["t"]:
            words.append(f"planning one {known['planning_ns']['t']:.0f} ns")
        return ", ".join(words)

    # -- pictures

    def dot(self) -> str:
        """Graphviz: a box per operation, a cluster per transaction, an edge per TD, PD and LD, and what these mean.

        Transactions of the critical path have bold frames. Of a large batch it says only that it is large.
        """
        lines = ["digraph tpg {", "  rankdir=LR; node [shape=box, fontsize=10];"]
        boxes = self._boxes()
        if self.counts and self.counts["operations"] and not boxes:
            count = f"{self.counts['operations']:,} operations of {self.counts['transactions']:,} transactions"
            lines.append(f'  large [label="{count}: too many to draw"];')
        critical = set(self.critical_path)
        for task, name in enumerate(self._names()):
            frame = " style=bold;" if task in critical else ""
            lines.append(f'  subgraph cluster_{task} {{ label="{task} {_quoted(name)}"; fontsize=10;{frame}')
            lines += [f'    o{n} [label="{_quoted(box.label)}"];' for n, box in enumerate(boxes) if box.task == task]
            lines.append("  }")
        for before, number, kind in self._edges(boxes):
            lines.append(f"  o{before} -> o{number} [{_dot_style(kind)}];")
        if boxes:
            lines.append('  subgraph cluster_legend { label="legend"; fontsize=10; node [shape=plaintext];')
            for kind, (_, _, meaning) in _KINDS.items():
                lines.append(f'    {kind}_from [label="{kind}"]; {kind}_to [label="{meaning}"];')
                lines.append(f"    {kind}_from -> {kind}_to [{_dot_style(kind)}];")
            lines.append("  }")
        return "\n".join([*lines, "}"])

    def _repr_html_(self) -> str:
        text = f"<pre>{html.escape(str(self))}</pre>"
        return text + self._svg() if self.counts and self.counts["accesses"] else text

    def _names(self) -> list[str]:
        if self.counts is None:
            return []
        names = [self._name(kind) for kind in self.counts["types"]]
        return [f"{name}, alone" if alone else name for name, alone in zip(names, self.counts["alone"], strict=True)]

    def _boxes(self) -> list[_Box]:
        if self.counts is None:
            return []
        return [
            _Box(task, f"{'w' if writes else 'r'} {self._row(table, key)}", td, pd)
            for task, table, writes, td, pd, key in self.counts["accesses"]
        ]

    def _edges(self, boxes: Sequence[_Box]) -> list[tuple[int, int, str]]:
        """(from, to, kind): TD, PD, and for LD each operation and the one before it in its transaction."""
        edges = []
        for number, box in enumerate(boxes):
            if box.td >= 0:
                edges.append((box.td, number, "TD"))
            edges += [(before, number, "PD") for before in box.pd]
            if number and boxes[number - 1].task == box.task:
                edges.append((number - 1, number, "LD"))
        return edges

    def _levels(self, boxes: Sequence[_Box]) -> list[int]:
        """The stratum of each transaction. Who runs alone comes after all before it, and before all behind it."""
        assert self.counts is not None
        alone = self.counts["alone"]
        level = [0] * len(alone)
        waits: dict[int, list[int]] = {}
        for box in boxes:
            waits.setdefault(box.task, []).extend(boxes[one].task for one in (box.td, *box.pd) if one >= 0)
        floor = 0
        for task, one in enumerate(alone):
            level[task] = max([floor, *(level[other] + 1 for other in waits.get(task, ()))])
            if one:
                level[task] = max([level[task], *(before + 1 for before in level[:task])])
                floor = level[task] + 1
        return level

    def _svg(self) -> str:
        """Transactions from left to right by stratum, their operations below each other; the critical path is bold."""
        boxes, names = self._boxes(), self._names()
        critical = set(self.critical_path)
        level = self._levels(boxes)
        place: dict[int, tuple[int, int]] = {}
        heights: dict[int, int] = {}
        shapes = []
        for task, name in enumerate(names):
            x = level[task] * (_CELL_W + _GAP_X * 3) + _GAP_X
            y = heights.get(level[task], 0) + _GAP_Y
            shapes.append(_text(x, y - 6, f"{task} {name}", "#555", bold=task in critical))
            for number, box in enumerate(boxes):
                if box.task == task:
                    place[number] = (x, y)
                    shapes.append(_cell(x, y, box.label, bold=task in critical))
                    y += _CELL_H
            heights[level[task]] = y
        lines = [_line(place[before], place[number], kind) for before, number, kind in self._edges(boxes)]
        width = (max(level, default=0) + 1) * (_CELL_W + _GAP_X * 3) + _GAP_X
        height = max(heights.values(), default=0) + _GAP_Y
        for kind, (colour, dashes, meaning) in _KINDS.items():
            lines.append(_stroke(_GAP_X, height - 4, _GAP_X + 40, height - 4, colour, dashes, tip=kind != "LD"))
            shapes.append(_text(_GAP_X + 48, height, f"{kind}: {meaning}", "#333"))
            height += 18
        shapes.append(_text(_GAP_X + 48, height, "bold: the critical path", "#333", bold=True))
        height += 18
        width = max(width, 48 + 7 * max(len(meaning) for _, _, meaning in _KINDS.values()))
        tip = '<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
        tip += '<path d="M0,0 L7,3 L0,6 z" fill="#555"/></marker>'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"><defs>{tip}</defs>'
            + "".join([*lines, *shapes])
            + "</svg>"
        )


def _text(x: int, y: int, text: str, colour: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" font-size="11" fill="{colour}"{weight}>{html.escape(text)}</text>'


def _cell(x: int, y: int, label: str, bold: bool) -> str:
    fill = "#fde8d7" if label.startswith("w") else "#dcebfa"
    shown = label if len(label) <= 20 else f"{label[:9]}…{label[-10:]}"  # keys differ at their ends, mostly
    stroke = 'stroke="#333" stroke-width="2"' if bold else 'stroke="#999"'
    box = f'<rect x="{x}" y="{y}" width="{_CELL_W}" height="{_CELL_H - 6}" rx="4" fill="{fill}" {stroke}/>'
    return f"<g><title>{html.escape(label)}</title>{box}{_text(x + 6, y + 18, shown, '#000')}</g>"


def _line(before: tuple[int, int], after: tuple[int, int], kind: str) -> str:
    colour, dashes, _ = _KINDS[kind]
    if kind == "LD":  # the next below
        x = before[0] + _CELL_W // 2
        return _stroke(x, before[1] + _CELL_H - 6, x, after[1], colour, dashes, tip=False)
    return _stroke(before[0] + _CELL_W, before[1] + 14, after[0], after[1] + 14, colour, dashes, tip=True)


def _stroke(x1: int, y1: int, x2: int, y2: int, colour: str, dashes: str, tip: bool) -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    tipped = ' marker-end="url(#tip)"' if tip else ""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}"{dashed}{tipped}/>'


def _dot_style(kind: str) -> str:
    colour, dashes, _ = _KINDS[kind]
    style = "solid" if not dashes else "dotted" if kind == "LD" else "dashed"
    return f'label="{kind}", color="{colour}", style={style}' + (", dir=none" if kind == "LD" else "")


def _degrees(counts: Sequence[int]) -> str:
    """How many transactions wait for how many accesses."""
    spans = ["0", "1", *(f"{1 << i}-{(2 << i) - 1}" for i in range(1, max(len(counts), 2)))]
    return ", ".join(f"{span}: {count:,}" for span, count in zip(spans, counts, strict=False) if count)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
