"""Random apps with windows and triggers, as text, and random epochs for them: small keys, ties, gaps, late events."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import scenario

import morphspark as ms

KEYS = {
    "int64": ('"int64"', ["e.k", "e.k2"], "t[k]", "lk", "w.key"),
    "string": ('"string"', ["e.s", "e.s2"], "t[k]", "ls", "w.key"),
    "parts": ('{"p": "int64", "q": "string"}', ["e.k, e.s", "e.k2, e.s2"], "t[k, x]", "lk, e.ls", "*w.key"),
}
AGGREGATES = {
    "f": ["sum", "mean", "min", "max", "first", "last", "nunique", "count"],
    "n": ["sum", "mean", "min", "max", "first", "last", "nunique", "count"],
    "d": ["sum", "mean", "min", "max", "first", "last", "nunique", "count"],
    "x": ["min", "max", "first", "last", "nunique", "count"],
    "b": ["first", "last", "nunique", "count"],
}
# What is applied to the values of a window, by column: functions of all kinds, some of which fail.
APPLIED = {"f": ["weighed", "steps"], "n": ["mixed", "listed"], "d": ["listed"], "x": ["listed"], "b": ["true"]}
FUNCTIONS = """
@ms.udf("float64")
def weighed(values):
    sum = 0.0
    for i in range(len(values)):
        sum += values[i] * (i + 1)
    return sum

@ms.udf("float64", vector=True)
def steps(windows):
    return [float(len(one)) for one in windows]

@ms.udf("int64")
def mixed(values):
    if len(values) == 4:
        raise ValueError("four")
    sum = 0
    for value in values:
        sum = sum * 31 + value
    return sum

@ms.udf("string", python=True)
def listed(values):
    return " ".join(map(str, values))

@ms.udf("int64")
def true(values):
    return values.sum()
""".splitlines()


class Maker:
    def __init__(self, chance: random.Random, clock: str):
        self.chance = chance
        self.clock = clock
        self.retain = chance.choice([None, 12, 12, 20])
        self.key = chance.choice(list(KEYS))
        self.returned = 0
        self.applies = chance.random() < 0.3

    def span(self, most: int = 12) -> str:
        return self.text(self.chance.randint(1, most))

    def text(self, size: int) -> str:
        return f'"{size} s"' if self.clock == "timestamp" else str(size)

    def aggregate(self, window: str) -> str:
        column = self.chance.choice("ffnndxb")
        if self.applies and self.chance.random() < 0.25:
            return f"{window}.{column}.apply({self.chance.choice(APPLIED[column])})"
        return f"{window}.{column}.{self.chance.choice(AGGREGATES[column])}()"

    def window(self, keys: list[str]) -> str:
        _, _, row, lists, _ = KEYS[self.key]
        span = self.chance.choice([self.span(), f"rows={self.chance.randint(1, 5)}"])
        which = self.chance.random()
        if which < 0.6:
            return f"t[{self.chance.choice(keys)}].over({span})"
        if which < 0.7:
            return f"ms.window([{', '.join(f't[{key}]' for key in keys)}], {span})"
        names = "k, x" if self.key == "parts" else "k"
        return f"ms.window([{row} for {names} in ms.each(e.{lists})], {span})"

    def returns(self, windows: list[str]) -> list[str]:
        lines = ["    return {"]
        for window in windows:
            self.returned += 1
            lines.append(f'        "r{self.returned}": {window},')
        return [*lines, "    }"]

    def app(self) -> str:
        chance = self.chance
        key, keys, _, _, own = KEYS[self.key]
        columns = '{"f": "float64", "n": "int64", "d": "decimal(9, 2)", "x": "string", "b": "bool"}'
        default = '{"f": 0.0, "n": 0, "d": Decimal("0.00"), "x": "", "b": False}'
        default = "" if chance.random() < 0.3 else f", default={default}"
        retain = "" if self.retain is None else f", retain={self.text(self.retain)}"
        order = chance.choice(['"ts"', '"ts"', '["ts", "seq"]'])
        late = chance.choice(["admit", "admit", "divert"])
        lines = [
            *(FUNCTIONS if self.applies else []),
            f'app = ms.App("generated", order_by={order}, late="{late}")',
            f't = app.table("t", key={key}, columns={columns}{default}{retain})',
            f'u = app.table("u", key={key}, columns={{"n": "int64"}}, default={{"n": 0}})',
        ]
        values = "f=e.f, n=e.n, d=e.d, x=e.x, b=e.n > 2"
        writes = [f"    t[{keys[0]}].f = e.f", f"    t[{keys[0]}].n += e.n", f"    t[{keys[0]}].x = e.x"]
        if default == "":
            writes = [
                f"    with ms.when(~t[{keys[0]}].exists()):",
                f"        t.insert({self.one(keys[0])}, {values})",
                f"    with ms.when(t[{keys[0]}].exists()):",
                f"        t[{keys[0]}].f = e.f",
            ]
        reads = [self.aggregate(self.window(keys)) for _ in range(chance.randint(0, 3))]
        lines += ["", '@app.on(kind="put")', "def put(e):", *writes]
        if chance.random() < 0.4:
            lines.append(f"    u[{keys[1]}].n += 1")
        if chance.random() < 0.3:
            lines.append('    ms.require(e.n != 3, "three")')
        lines += self.returns(reads)
        lines += ["", '@app.on(kind="drop")', "def drop(e):", f"    t.delete({self.one(keys[0])})"]
        if chance.random() < 0.5:
            lines.append(f"    t.insert({self.one(keys[0])}, {values})")
        lines += self.returns([self.aggregate(self.window(keys))])
        lines += ["", '@app.on(kind="move")', "def move(e):"]
        if default:
            lines += [
                f"    t[{keys[0]}].n += e.n",
                f"    t[{keys[1]}].n -= e.n",
                f"    u[{keys[0]}].n = t[{keys[1]}].n",
            ]
        lines += self.returns([self.aggregate(self.window(keys)) for _ in range(2)])
        for number in range(chance.choice([0, 1, 2, 3])):
            lines += self.trigger(number, own)
        return "\n".join(lines)

    def one(self, key: str) -> str:
        return f"({key})" if "," in key else key

    def trigger(self, number: int, own: str) -> list[str]:
        chance = self.chance
        kind = chance.choice(["every", "each", "session", "session of u", "each of u"])
        lines = [""]
        if kind == "every":
            window = chance.choice(["", f", window={self.span()}"])
            lines += [f"@app.every({self.span(6)}{window})", f"def fired{number}(w):"]
            lines += self.returns(["w.start", "w.end"])
            return lines
        table = "u" if kind.endswith("u") else "t"
        if kind.startswith("each"):
            lines.append(f"@app.every({self.span(6)}, window={self.span()}, each={table})")
        else:
            lines.append(f"@app.session(gap={self.span(5)}, each={table})")
        lines.append(f"def fired{number}(w):")
        if table == "t" and chance.random() < 0.7:
            lines.append(f"    u[{own}].n += 1")
        windows = ["w.start", "w.end"]
        if table == "t":
            possible = [f"t[{own}].over({self.span()})", f"t[{own}].over(rows=3)"]
            if kind == "each" or self.retain is not None:
                possible.append(f"t[{own}].over(w)")
            windows += [self.aggregate(chance.choice(possible)) for _ in range(2)]
            windows.append(f"u[{own}].over({self.span()}).n.sum()")
        return lines + self.returns(windows)

    def build(self) -> tuple[ms.App, str]:
        text = self.app()
        lines = ["    " + line for line in text.splitlines()]
        return scenario.build_app(scenario.Section("app", "", 0, lines), "<generated>"), text


FLOATS = [0.0, -0.0, 1.5, float("nan"), float("inf"), 1e308, 1e308, -1e308, 0.1, 1e16, 1.0, 5e-324]
NUMBERS = [0, 1, 2, 3, 4, 5, 2**62, -(2**62)]


def epoch(chance: random.Random, clock: str, now: int, rows: int) -> pa.Table:
    times = []
    for _ in range(rows):
        now += chance.choice([0, 0, 0, 1, 1, 2, 3, 7, 40 if chance.random() < 0.2 else 1])
        times.append(None if chance.random() < 0.03 else now - (chance.choice([0] * 8 + [5])))
    unit = 1_000_000 if clock == "timestamp" else 1
    ts = pa.array([None if one is None else one * unit for one in times], pa.int64())
    if clock == "timestamp":
        ts = ts.cast(pa.timestamp("us", "UTC"))

    def some(values: list[Any], kind: pa.DataType, null: float = 0.0) -> pa.Array:
        drawn = [None if chance.random() < null else chance.choice(values) for _ in range(rows)]
        return pa.array(drawn, kind)

    sizes = [chance.choice([0, 1, 2, 3, 4]) for _ in range(rows)]
    keys = [[chance.choice([1, 2, 3, None] if chance.random() < 0.05 else [1, 2, 3]) for _ in range(n)] for n in sizes]
    names = [[chance.choice(["a", "b", "cc"]) for _ in range(n)] for n in sizes]
    return pa.table(
        {
            "ts": ts,
            "seq": some([1, 2, 3], pa.int64(), 0.02),
            "kind": some(["put"] * 6 + ["drop", "move", "move", "none"], pa.string()),
            "k": some([1, 2, 3], pa.int64(), 0.02),
            "k2": some([1, 2, 3], pa.int64()),
            "s": some(["a", "b", "cc"], pa.string(), 0.02),
            "s2": some(["a", "b", "cc"], pa.string()),
            "f": some(FLOATS, pa.float64(), 0.02),
            "n": some(NUMBERS, pa.int64()),
            "d": pa.array([f"{chance.randint(-500, 500) / 100:.2f}" for _ in range(rows)]).cast(pa.decimal128(9, 2)),
            "x": some(["", "p", "qq", "a long text, to be sure that it is nowhere inline"], pa.string()),
            "lk": pa.array(keys, pa.list_(pa.int64())),
            "ls": pa.array(names, pa.list_(pa.string())),
        }
    )
