"""Sliding windows and sessions through the durable engine, for long: memory must not grow.

    python tests/soak.py --seconds 600

Prints the resident memory every few seconds; ends with exit code 1 if, after the first fifth of the time, it has grown
by more than 5 %.
"""

import argparse
import gc
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa

import morphspark as ms
from morphspark.bench.memory_probe import status_bytes

EPOCH, KEYS, GROWTH_MAX = 4_000, 500, 0.05


def make_app():
    app = ms.App("soak", order_by="ts")
    speeds = app.table(
        "speeds", key="int64", columns={"speed": "float64", "car": "int64", "note": "string"},
        default={"speed": 0.0, "car": 0, "note": ""}, retain=20_000,
    )  # fmt: skip

    @app.on()
    def report(e):
        row = speeds[e.segment]
        recent = row.over(20_000)
        row.speed = e.speed
        row.car = e.car
        row.note = e.note
        return {"mean": recent.speed.mean(), "top": recent.speed.max(), "cars": recent.car.nunique()}

    @app.every(1_000, window=5_000, each=speeds)
    def summary(w):
        return {"key": w.key, "average": speeds[w.key].over(w).speed.mean()}

    @app.session(gap=700, each=speeds)
    def trip(w):
        return {"key": w.key, "count": speeds[w.key].over(w).speed.count()}

    return app


def events(start):
    chance = np.random.default_rng(start)
    numbers = chance.integers(0, 1_000_000, EPOCH)
    return pa.table(
        {
            "ts": np.arange(start, start + EPOCH),
            "segment": chance.zipf(1.3, EPOCH) % KEYS,
            "speed": numbers / 7,
            "car": numbers % 1_000,
            "note": pa.array([f"a note that is nowhere inline, number {number}" for number in numbers]),
        }
    )


def soak(seconds, folder):
    """The growth of memory after the first fifth of the time (two of ten minutes), as a share."""
    began, shown, settled, now, memory = time.monotonic(), 0.0, None, 0, 0
    config = ms.Config(fsync=False, snapshot_every=20, retain_epochs=2)
    with make_app().open(folder, config=config) as engine:
        while (spent := time.monotonic() - began) < seconds:
            engine.process(events(now))
            now += EPOCH
            if spent - shown < min(5.0, seconds / 20):
                continue
            gc.collect()
            pa.default_memory_pool().release_unused()
            shown, memory = spent, status_bytes("VmRSS")
            if spent >= seconds / 5:
                settled = settled or memory
            print(f"{spent:6.0f} s   {now:>12,} events   {memory / 2**20:8.1f} MiB", flush=True)
    return memory / settled - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    with tempfile.TemporaryDirectory(prefix="morphspark-soak-") as folder:
        growth = soak(parser.parse_args().seconds, folder)
    print(f"memory grew by {100 * growth:.1f} % after the first fifth (at most {100 * GROWTH_MAX:.0f} %)")
    sys.exit(growth > GROWTH_MAX)


if __name__ == "__main__":
    main()
