"""Benchmarks as commands: `morphspark bench NAME [--quick] [--plot FILE]`.

Machines are noisy, so only ratios within one run count: what is compared takes turns, many times, and medians are
compared. Every benchmark prints a table for people and ends with one JSON line for programs:

    {"bench": NAME, "machine": {…}, "rows": [measured rows], "bars": [{"name", "value", "bar", "ok"}]}

A module of this package for each name, with `run(scale) -> Report`. The suites of strategies share workloads/ (what is
run), lineup.py (who takes part), contest.py (the measuring) and sweep.py (the same over several workloads).
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from morphspark.bench.report import Report
from morphspark.bench.scale import FULL, QUICK, Scale

BENCHES = {
    "engine": "Streaming Ledger through engine.process, beside a Python dict loop and a hand-written C++ loop",
    "sink": "Streaming Ledger through Spark, beside a foreachBatch with a dict loop and one with toArrow() alone",
    "sl-schemes": "every strategy and scheme on Streaming Ledger, over the cost of a write",
    "dynamic": "Streaming Ledger in four phases: throughput, latency and what auto decides, batch by batch",
    "explore": "how the graph is explored, over the punctuation interval and skew (Grep & Sum)",
    "granularity": "units of scheduling, over cycles, the punctuation interval and reads of several rows (Grep & Sum)",
    "abort": "eager and lazy aborts, over the cost of a write and the share of aborts (Grep & Sum)",
    "nested": "two groups of transactions with a strategy each (Toll Processing)",
    "window": "sums over windows of 100 random keys, over the size of the window and how often they are read",
    "nondet": "keys computed from what is read, over their share, with and without candidates (Grep & Sum)",
    "regret": "auto against the best fixed strategy, over a grid of workloads",
    "breakdown": "where the time goes: useful, sync, lock, construct, explore, abort; and the speed of planning",
    "memory": "bytes of the graph and of versions, and the peak of an epoch, beside serial",
    "recovery": "what a durable log costs through Spark, how fast a crash is over, what a snapshot does to batches",
    "udf": "user functions: compiled, in Python, and a model that is called for many rows at once",
    "scaling": "1 to n threads, beside two threads that share nothing",
}


def main(argv: Sequence[str]) -> int:
    """Run one benchmark; 0 if it ran, whatever its bars say."""
    names = "\n".join(f"  {name:12} {text}" for name, text in BENCHES.items())
    parser = argparse.ArgumentParser(
        prog="morphspark bench",
        description=f"Benchmarks:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=BENCHES, metavar="NAME", nargs="?")
    parser.add_argument("--list", action="store_true", help="list the names and end")
    parser.add_argument("--quick", action="store_true", help="fewer repeats and workloads: a minute or two")
    parser.add_argument("--plot", metavar="FILE", help="also draw it: FILE.png, .pdf or .svg")
    arguments = parser.parse_args(argv)
    if arguments.list:
        print(names)
        return 0
    if arguments.name is None:
        parser.error(f"which one? NAME is one of {', '.join(BENCHES)}")
    if arguments.plot:
        from morphspark.bench.chart import check_plot

        check_plot(arguments.plot)
    report = run(arguments.name, QUICK if arguments.quick else FULL)
    if arguments.plot:
        report.plot(arguments.plot)
    report.show()
    return 0


def run(name: str, scale: Scale) -> Report:
    report = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").run(scale)
    assert isinstance(report, Report)
    return report
