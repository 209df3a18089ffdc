"""A process of its own for each measurement of `morphspark bench memory`: what an engine adds to its resident memory.

    python -m morphspark.bench.memory_probe STRATEGY EVENTS KEYS BATCHES

with the strategy as JSON prints a JSON line: the growth of the process's peak, and the metrics of the last batch.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import pyarrow as pa

from morphspark.bench.lineup import Entrant
from morphspark.bench.workloads.ledger import Ledger


def main(strategy: str | dict[str, str], events: int, keys: int, batches: int) -> None:
    workload = Ledger(events, keys).workload()
    stream = [workload.batch(number) for number in range(batches)]
    gc.collect()
    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is from now on
    before = status_bytes("VmRSS")
    engine = Entrant("the only one", strategy).open(workload)
    for batch in stream:
        engine.process(batch)
    print(json.dumps({"resident_bytes": status_bytes("VmHWM") - before, "record": engine.metrics[-1]}))


def status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), *(int(argument) for argument in sys.argv[2:]))
