"""What tests with Spark share: `pytest_plugins = ["spark_fixtures"]`."""

import json

import pyarrow as pa
import pytest

from morphspark.session import local_session

# The ledger of api.md: a deposit for a, one for b, a transfer from a to b, and one that a can't afford.
EVENTS = [
    {"ts": 1, "kind": "deposit", "account": "a", "to_account": None, "asset": "x", "amount": 100, "quantity": 1},
    {"ts": 2, "kind": "deposit", "account": "b", "to_account": None, "asset": "x", "amount": 10, "quantity": 1},
    {"ts": 3, "kind": "transfer", "account": "a", "to_account": "b", "asset": None, "amount": 70, "quantity": None},
    {"ts": 4, "kind": "transfer", "account": "a", "to_account": "b", "asset": None, "amount": 70, "quantity": None},
]
SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "kind": pa.string(),
        "account": pa.string(),
        "to_account": pa.string(),
        "asset": pa.string(),
        "amount": pa.int64(),
        "quantity": pa.int64(),
    }
)
DDL = "ts long, kind string, account string, to_account string, asset string, amount long, quantity long"


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One classic session for all tests."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    conf = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": 2, "spark.sql.session.timeZone": "Asia/Tokyo"}
    session = local_session("tests", conf, str(log))
    yield session
    session.stop()


@pytest.fixture
def frame(spark):
    """Events as a DataFrame; by default the four above."""
    return lambda events=EVENTS: spark.createDataFrame(pa.Table.from_pylist(events, SCHEMA))


class Feed:
    """A folder of JSON files as a stream: one file, one micro-batch."""

    def __init__(self, spark, folder):
        self.folder = folder
        self.folder.mkdir()
        self.stream = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).json(str(folder))

    def add(self, events):
        number = len(list(self.folder.glob("*.json")))
        unfinished = self.folder / f".{number}"
        unfinished.write_text("\n".join(json.dumps(event) for event in events))
        unfinished.rename(self.folder / f"{number:04}.json")


@pytest.fixture
def feed(spark, tmp_path):
    return Feed(spark, tmp_path / "feed")


@pytest.fixture
def run_query(tmp_path):
    """Let a stream pass through a sink until nothing is left; the query. Called again it continues."""

    def run(stream, sink, checkpoint="checkpoint"):
        query = (
            stream.writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)
        assert not query.isActive
        return query

    return run
