"""Benchmarks as commands: `morphspark bench NAME [--quick]`.

Machines are noisy, so only ratios within one run count: what is compared takes turns, many times, and medians are
compared. Every benchmark prints a table for people and ends with one JSON line for programs:

    {"bench": NAME, "machine": {…}, "rows": [measured rows], "bars": [{"name", "value", "bar", "ok"}]}
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

BENCHES = {
    "engine": "Streaming Ledger through engine.process, beside a Python dict loop and a hand-written C++ loop",
    "sink": "Streaming Ledger through Spark, beside a foreachBatch with a dict loop and one with toArrow() alone",
}


def main(argv: Sequence[str]) -> int:
    """Run one benchmark; 0 if it ran, whatever its bars say."""
    names = "\n".join(f"  {name:10} {text}" for name, text in BENCHES.items())
    parser = argparse.ArgumentParser(
        prog="morphspark bench",
        description=f"Benchmarks:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=BENCHES, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="fewer repeats: under a minute")
    arguments = parser.parse_args(argv)
    importlib.import_module(f"{__name__}.{arguments.name}").run(quick=arguments.quick).show()
    return 0
