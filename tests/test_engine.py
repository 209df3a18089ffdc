"""The face of an engine: api.md's programs as they stand, results, late events, state, metrics, its life."""

import dataclasses

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.metrics import Metrics
from morphspark.testing import check_canonical

EVENTS = pa.table(
    {
        "ts": [1, 2, 3, 4],
        "kind": ["deposit", "transfer", "transfer", "audit"],
        "account": ["a", "a", "b", None],
        "to_account": [None, "b", "a", None],
        "asset": ["x", None, None, None],
        "amount": [100, 30, 31, None],
        "quantity": [2, None, None, None],
    }
)


def test_api_md_transaction(ledger, opened):
    engines = opened(ledger)
    result = engines.process(EVENTS)
    assert result.column_names == [*EVENTS.column_names, "balance", "_status", "_reason", "_epoch", "_ts"]
    assert result.select(["balance", "_status", "_reason", "_epoch", "_ts"]).to_pylist() == [
        {"balance": None, "_status": "committed", "_reason": None, "_epoch": 0, "_ts": 1},
        {"balance": 70, "_status": "committed", "_reason": None, "_epoch": 0, "_ts": 2},
        {"balance": None, "_status": "aborted", "_reason": "require: insufficient funds", "_epoch": 0, "_ts": 3},
        {"balance": None, "_status": "unmatched", "_reason": None, "_epoch": 0, "_ts": 4},
    ]
    assert engines.table("accounts").to_pydict() == {"key": ["a", "b"], "balance": [70, 30]}
    assert engines.table("assets").to_pydict() == {"key": ["x"], "amount": [2]}


def test_api_md_without_spark(ledger):
    """The program of api.md, line by line."""
    engine = ledger.open()
    engine.load("accounts", pa.table({"key": ["a"], "balance": [5]}))
    result = engine.process(EVENTS.to_pandas(types_mapper=pd.ArrowDtype))
    assert isinstance(result, pa.Table)
    assert engine.late.num_rows == 0
    frame = engine.table("accounts").to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert sorted(map(tuple, frame.itertuples(index=False))) == [("a", 75), ("b", 30)]
    assert engine.table("accounts").to_arrow().num_rows == len(engine.table("accounts")) == 2
    assert isinstance(engine.metrics.to_pandas(), pd.DataFrame)
    engine.close()
    other = ledger.open(config=ms.Config(strategy="serial", threads=2, punctuation=512))
    assert other.config.threads == 2
    other.close()


def test_schema_of_the_output(opened):
    app = ms.App("schema", order_by="at")
    app.table("t", key="int64", columns={"v": "int64"})

    @app.on(k=1)
    def first(e):
        return {"n": 1, "both": 1}

    @app.on(k=2)
    def second(e):
        return {"both": 0.5, "late": None}

    batch = pa.table({"at": pa.array([2, 1], pa.timestamp("us", "UTC")), "k": [1, 2]})
    result = opened(app).process(batch)
    assert result.schema == pa.schema(
        {
            "at": pa.timestamp("us", "UTC"), "k": pa.int64(), "n": pa.int64(), "both": pa.float64(), "late": pa.null(),
            "_status": pa.string(), "_reason": pa.string(), "_epoch": pa.int64(), "_ts": pa.timestamp("us", "UTC"),
        }
    )  # fmt: skip
    assert result["both"].to_pylist() == [0.5, 1.0]
    check_canonical(result)


def test_ts_is_null_without_order(opened):
    result = opened(ms.App("arrival")).process(pa.table({"x": [1, 2]}))
    assert result["_ts"].to_pylist() == [None, None]


def test_late_table(opened):
    app = ms.App("late", order_by="ts", late="divert")

    @app.on()
    def run(e):
        pass

    engines = opened(app)
    assert engines.late is None
    engines.process(pa.table({"ts": [10], "x": ["a"]}))
    assert engines.late.num_rows == 0 and engines.late.column_names == ["ts", "x"]
    engines.process(pa.table({"ts": [9, 11, 3], "x": ["b", "c", None]}))
    assert engines.late.to_pydict() == {"ts": [3, 9], "x": [None, "b"]}
    assert engines.watermark == 11
    engines.process(pa.table({"ts": [12], "x": ["d"]}))
    assert engines.late.num_rows == 0


def test_an_epoch_of_late_events_only(opened):
    app = ms.App("late", order_by="ts", late="divert")

    @app.on()
    def run(e):
        return {"y": e.x}

    engines = opened(app)
    engines.process(pa.table({"ts": [10], "x": [1]}))
    assert engines.process(pa.table({"ts": [1, 2], "x": [1, 2]})).num_rows == 0
    assert engines.late.num_rows == 2
    assert engines.epoch == 2


def test_metrics(ledger, opened):
    engines = opened(ledger)
    engines.process(EVENTS)
    engines.process(EVENTS.slice(0, 2))
    for engine in engines.engines.values():
        assert len(engine.metrics) == 2
        first, second = engine.metrics
        counts = {"epoch": 0, "events": 4, "committed": 2, "aborted": 1, "unmatched": 1, "late": 0, "diverted": 0}
        assert {name: first[name] for name in counts} == counts
        assert second["late"] == 2 and second["state_rows"] == 3 and second["state_bytes"] > 0
        assert second["total_ms"] >= second["admit_ms"] >= 0
        assert engine.metrics[-1] is second
        assert engine.metrics[-5:] == [first, second]
        assert list(engine.metrics.to_pandas()["committed"]) == [2, 2]
        assert "2 epochs" in repr(engine.metrics)


def test_a_failed_epoch_is_not_measured(ledger, opened):
    engines = opened(ledger)
    with pytest.raises(ms.SchemaError):
        engines.process(pa.table({"x": [1]}))
    assert all(len(engine.metrics) == 0 for engine in engines.engines.values())


def test_life(ledger, opened):
    engines = opened(ledger)
    for engine in engines.engines.values():
        view = engine.table("accounts")
        assert "next epoch 0" in repr(engine) and "'accounts'" in repr(view)
        with engine as same:
            assert same is engine
            same.process(EVENTS)
        assert "closed" in repr(engine)
        engine.close()
        for use in (
            lambda engine=engine: engine.process(EVENTS),
            lambda engine=engine: engine.load("accounts", EVENTS),
            lambda engine=engine: engine.table("accounts"),
            view.to_arrow,
            view.to_pandas,
            lambda view=view: len(view),
        ):
            with pytest.raises(ms.ClosedError, match="the engine is closed"):
                use()
        assert engine.epoch == 1
        assert engine.metrics[0]["events"] == 4


def test_metrics_take_no_more_and_more_memory():
    kept = Metrics()
    for epoch in range(3_000):
        kept.add({"epoch": epoch, "batches": [{}]})
    assert (len(kept), kept[0]["epoch"], kept[-1]["epoch"]) == (1_000, 2_000, 2_999)
    for epoch in range(3_000, 3_010):
        kept.add({"epoch": epoch, "batches": [{}] * 1_500})
    assert [one["epoch"] for one in kept] == [3_008, 3_009]
    kept.add({"epoch": 3_010, "batches": [{}] * 9_000})
    assert [one["epoch"] for one in kept] == [3_010]


def test_results_outlive_the_engine(ledger):
    with ledger.open() as engine:
        result = engine.process(EVENTS)
        state = engine.table("accounts").to_arrow()
    del engine
    assert result["balance"].to_pylist() == [None, 70, None, None]
    assert sorted(state["balance"].to_pylist()) == [30, 70]


def test_unknown_table(ledger):
    with (
        ledger.open() as engine,
        pytest.raises(ms.SchemaError, match=r"no table 'acounts' \(tables: accounts, assets\)"),
    ):
        engine.table("acounts")


def test_the_program_is_the_one_at_opening(counter):
    """Transactions defined later belong to engines opened later."""
    with counter.open() as engine:

        @counter.on(key=99)
        def never(e):
            pass

        assert [one.name for one in engine.program.transactions] == ["add"]
        assert [one.name for one in counter.program.transactions] == ["add", "never"]


def test_two_engines_of_one_app_share_nothing(counter):
    batch = pa.table({"ts": [1], "key": [1], "amount": [5]})
    with counter.open() as one, counter.open() as two:
        one.process(batch)
        assert len(two.table("sums")) == 0
        assert one.process(batch)["total"].to_pylist() == [10]
        assert two.process(batch)["total"].to_pylist() == [5]


def test_input_is_left_alone(counter, opened):
    amounts = pa.array([1, None, 3])
    batch = pa.table({"ts": [3, 2, 1], "key": [1, 1, 1], "amount": amounts})
    before = batch.to_pydict()
    opened(counter).process(batch)
    assert batch.to_pydict() == before


def test_memory_of_arrow_is_given_back(counter):
    batch = pa.table({"ts": range(5000), "key": [1] * 5000, "amount": [1] * 5000, "note": ["x"] * 5000})
    with counter.open() as engine:
        engine.process(batch)
        before = pa.total_allocated_bytes()
        for _ in range(20):
            engine.process(batch)
        assert pa.total_allocated_bytes() - before < 2_000_000


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"strategy": "fastest"}, "strategy='fastest': expected one of auto, serial"),
        ({"threads": 0}, "threads=0"),
        ({"threads": 1.5}, "threads=1.5"),
        ({"threads": True}, "threads=True"),
        ({"punctuation": 0}, "punctuation=0"),
        ({"punctuation": "often"}, "punctuation='often'"),
        ({"punctuation": 2**63}, "expected a whole number from 1 to 9223372036854775807, or auto"),
        ({"max_string_bytes": 2**70}, "expected a whole number from 1 to"),
        ({"max_epoch_rows": 0}, "max_epoch_rows=0"),
        ({"max_string_bytes": -1}, "max_string_bytes=-1"),
        ({"max_state_bytes": "many"}, "max_state_bytes='many'"),
        ({"retain_epochs": 0}, "retain_epochs=0"),
        ({"clock": 5}, "clock"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(ms.ConfigError) as caught:
        ms.Config(**settings)
    assert words in str(caught.value)


def test_settings_stay_as_they_were_checked(counter):
    given = {"*": "ns-explore/t-schedule/e-abort"}
    config = ms.Config(strategy=given, threads=np.int64(2), punctuation=np.int32(3))
    assert (type(config.threads), type(config.punctuation)) == (int, int)
    assert hash(config) == hash(ms.Config(strategy=dict(given), threads=2, punctuation=3))
    given["*"] = "nothing"
    with counter.open(config=config) as engine:
        assert engine.process(pa.table({"ts": [1], "key": [1], "amount": [1], "note": ["x"]})).num_rows == 1


def test_settings_from_text_and_files(tmp_path):
    config = ms.Config.from_mapping({"threads": "3", "punctuation": "auto", "max_epoch_rows": 5}, "test")
    assert (config.threads, config.punctuation, config.max_epoch_rows) == (3, "auto", 5)
    with pytest.raises(ms.ConfigError, match="test: unknown setting 'thread'"):
        ms.Config.from_mapping({"thread": 1}, "test")
    path = tmp_path / "job.toml"
    path.write_text("[engine]\nthreads = 2\n[other]\nx = 1\n")
    assert ms.Config.from_file(path).threads == 2
    path.write_text("[engine\n")
    with pytest.raises(ms.ConfigError, match="not valid TOML"):
        ms.Config.from_file(path)
    with pytest.raises(ms.ConfigError, match="no such file"):
        ms.Config.from_file(tmp_path / "none.toml")
    assert dataclasses.replace(config, threads=1).thread_count == 1
    assert ms.Config().thread_count >= 1


def test_errors_are_also_pythons_own():
    pairs = {
        ms.TraceError: TypeError, ms.SchemaError: ValueError, ms.ConfigError: ValueError, ms.EpochError: ValueError,
        ms.LateError: ValueError, ms.LimitError: MemoryError, ms.ClosedError: RuntimeError,
    }  # fmt: skip
    for error, builtin in pairs.items():
        assert issubclass(error, builtin) and issubclass(error, ms.MorphsparkError)


def test_a_table_is_named_or_given(counter):
    sums = ms.App("other").table("sums", key="int64", columns={"total": "int64"}, default={"total": 1})
    same = ms.app.Table(counter.program.table("sums"))
    with counter.open() as engine:
        engine.load(same, pa.table({"key": [1], "total": [5]}))
        assert engine.table(same).to_arrow().equals(engine.table("sums").to_arrow())
        for use in (engine.table, lambda table: engine.load(table, pa.table({"key": [1], "total": [5]}))):
            with pytest.raises(ms.SchemaError, match="table 'sums' is not one of app 'counter'"):
                use(sums)
