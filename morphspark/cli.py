"""The command line: `morphspark run`, `morphspark bench`, `morphspark state`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

USER_MISTAKE = 2  # exit code; as argparse's own


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    from .errors import MorphsparkError
    from .java import JavaNotFoundError

    try:
        if arguments[:1] == ["bench"]:  # it has options of its own
            return _bench(arguments[1:])
        options = _parser().parse_args(arguments)
        return options.action(options)
    except (MorphsparkError, JavaNotFoundError) as error:
        print(f"morphspark: {error}", file=sys.stderr)
        return USER_MISTAKE
    except KeyboardInterrupt:
        print("morphspark: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    from . import __version__

    parser = argparse.ArgumentParser(prog="morphspark", description="Transactions over shared state in Spark streams.")
    parser.add_argument("--version", action="version", version=f"morphspark {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    run = commands.add_parser("run", help="run the job that a TOML file describes", description=_run.__doc__)
    run.add_argument("conf", help="for example conf/ledger.toml, which explains every setting")
    run.add_argument("--seconds", type=_positive(float), help="how long to stream (job.seconds)")
    run.add_argument("--rows-per-batch", type=_positive(int), help="events per micro-batch (job.rows_per_batch)")
    run.add_argument("--verbose", action="store_true", help="show Spark's log")
    run.set_defaults(action=_run)

    from .state_commands import add_commands

    text = "look into a state directory: ls, show, export, verify"
    add_commands(commands.add_parser("state", help=text, description="Look into a state directory."))
    commands.add_parser("bench", help="run a benchmark; `morphspark bench --help` lists them", add_help=False)
    return parser


def _run(options: argparse.Namespace) -> int:
    """Run a job; ends with exit code 0 if all its checks hold. Ctrl-C ends it early, with the summary."""
    from .jobs import run

    overrides = {"seconds": options.seconds, "rows_per_batch": options.rows_per_batch}
    given = {name: value for name, value in overrides.items() if value is not None}
    return run(options.conf, given, options.verbose)


def _bench(arguments: Sequence[str]) -> int:
    from .bench import main as bench

    return bench(arguments)


def _positive(kind: type) -> Any:
    def parse(text: str) -> Any:
        value = kind(text)
        if value <= 0:
            raise ValueError
        return value

    parse.__name__ = f"positive {kind.__name__}"  # argparse's message: invalid positive int value: '0'
    return parse


if __name__ == "__main__":
    sys.exit(main())
