"""Kill, start again, compare with the oracle; many times:

    python tests/crash --engine 500 --spark 20 --seed 1

Ends with exit code 0 if nothing was lost and nothing happened twice. Otherwise it says which seed and which folder
show the difference, and leaves the folder there.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # durable_story.py

from engine_kills import kill_engines
from spark_kills import kill_queries


def main():
    parser = argparse.ArgumentParser(prog="tests/crash", description=__doc__.split("\n")[0])
    parser.add_argument("--engine", type=int, default=500, help="kills of an engine (default: %(default)s)")
    parser.add_argument("--spark", type=int, default=20, help="kills of a Spark query (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: the time")
    parser.add_argument("--folder", type=Path, help="where states are kept meanwhile (default: a temporary folder)")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="morphspark-crash-"))
    print(f"seed {options.seed}, folder {folder}", flush=True)
    for what, kill, count in (("engine", kill_engines, options.engine), ("spark", kill_queries, options.spark)):
        started = time.monotonic()
        tally = kill(folder / what, count, options.seed)
        tally.show(what, time.monotonic() - started)
    if options.folder is None:
        folder.rmdir()  # every life that ended well has deleted its own


if __name__ == "__main__":
    main()
