"""Shared by all tests: where helper modules are, Hypothesis profiles, small apps."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

import morphspark as ms
from morphspark.apps.streaming_ledger import declare_books
from morphspark.testing import Schedule, both_engines

sys.path.insert(0, str(Path(__file__).parent))  # scenario.py, strategies.py, …

_COMMON = {
    "deadline": None,
    "print_blob": True,
    "report_multiple_bugs": False,
    "phases": [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
}
# `make test` repeats one sequence of examples, so that it fails or passes for everybody alike; `make fuzz` explores.
settings.register_profile("test", derandomize=True, database=None, **_COMMON)
settings.register_profile("long", max_examples=200, **_COMMON)
settings.load_profile("long" if os.environ.get("MORPHSPARK_FUZZ") == "long" else "test")


@pytest.fixture
def ledger():
    """The app of api.md: as the streaming ledger, but a transfer moves money alone."""
    app = ms.App("ledger", order_by="ts")
    accounts, _ = declare_books(app)

    @app.on(kind="transfer")
    def transfer(e):
        src, dst = accounts[e.account], accounts[e.to_account]
        ms.require(src.balance >= e.amount, "insufficient funds")
        src.balance -= e.amount
        dst.balance += e.amount
        return {"balance": src.balance}

    return app


@pytest.fixture
def counter():
    """The smallest useful app: one table of sums by key."""
    app = ms.App("counter", order_by="ts")
    sums = app.table("sums", key="int64", columns={"total": "int64"}, default={"total": 0})

    @app.on()
    def add(e):
        sums[e.key].total += e.amount
        return {"total": sums[e.key].total}

    return app


@pytest.fixture
def declared():
    """An app that knows its event types, so that mistakes show when a function is traced."""
    from declared import Declared

    return Declared()


@pytest.fixture
def opened():
    """Open both engines of an app; closed when the test ends."""
    pairs = []

    def open_both(app, config=None, threads=(1,)):
        pairs.append(both_engines(app, config, [Schedule(threads=count) for count in threads]))
        return pairs[-1]

    yield open_both
    for pair in pairs:
        pair.close()
