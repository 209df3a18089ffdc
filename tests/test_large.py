"""Batches large enough for every phase to use several threads: still the same bytes, for every number of them."""

import dataclasses

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from strategies import stories

import morphspark as ms
from morphspark.testing import BothEngines

ROWS = 70_000  # more than two chunks of the largest grain in csrc/


def ledger_events(rng, rows, first):
    """Out of order, with ties, nulls and late events; some accounts are busy, some names long."""
    names = np.array([f"account {n}" if n % 7 else f"{n}" * 12 for n in range(500)])
    pick = rng.zipf(1.3, rows) % 500
    nulls = rng.random(rows) < 0.01
    return pa.table(
        {
            "ts": pa.array(first + rng.integers(0, rows, rows), mask=rng.random(rows) < 0.001),
            "kind": pa.array(rng.choice(["deposit", "transfer", "audit"], rows, p=[0.5, 0.45, 0.05])),
            "account": pa.array(names[pick], mask=nulls),
            "to_account": pa.array(names[rng.integers(0, 500, rows)]),
            "asset": pa.array(rng.integers(0, 50, rows).astype(str)).dictionary_encode(),
            "amount": pa.array(rng.integers(0, 300, rows), mask=rng.random(rows) < 0.01),
            "quantity": pa.array(rng.integers(0, 3, rows).astype(np.int8)),
            "note": pa.array(rng.choice(["", "x", "a longer note"], rows), mask=rng.random(rows) < 0.3),
        }
    )


def test_a_large_ledger(ledger, opened):
    rng = np.random.default_rng(3)
    engines = opened(ledger, threads=(1, 3))
    for rows, first in ((ROWS, 0), (2_000, ROWS // 2)):
        result = engines.process(ledger_events(rng, rows, first))
        statuses = result["_status"].value_counts().to_pylist()
        assert {one["values"] for one in statuses} == {"committed", "aborted", "unmatched"}
    assert engines.table("accounts").num_rows == 500


@settings(max_examples=12)
@given(stories(sizes=(12, 16, 9)))
def test_threads_agree_on_large_batches(story):
    """Each generated epoch, its rows drawn again and again up to full size; without the oracle, which is too slow."""
    app = story.build()
    rng = np.random.default_rng(len(story.epochs))
    configs = [dataclasses.replace(story.config, threads=threads) for threads in (1, 2, 3)]
    with BothEngines(app, {f"{one.threads} thread(s)": app.open(config=one) for one in configs}) as engines:
        for name, table in story.initial.items():
            engines.load(name, table)
        for one in story.epochs[:2]:
            if not one.table.num_rows:
                continue
            rows = pa.array(rng.integers(0, one.table.num_rows, ROWS))
            try:
                engines.process(one.table.cast(_takeable(one.table.schema)).take(rows))
            except (ms.LateError, ms.LimitError):
                break


def _takeable(schema):
    """pyarrow has no `take` for views."""
    views = {pa.string_view(): pa.string()}
    return pa.schema([field.with_type(views.get(field.type, field.type)) for field in schema])
