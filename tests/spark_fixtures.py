"""What tests with Spark share: `pytest_plugins = ["spark_fixtures"]`."""

import json
import os

import pyarrow as pa
import pytest
from ledger_events import DDL, EVENTS, SCHEMA

from morphspark.session import local_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One classic session for all tests."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    conf = {
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.session.timeZone": "Asia/Tokyo",
    }
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
        os.utime(unfinished, (number, number))  # Spark takes files by age
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
        query.awaitTermination(120)
        assert not query.isActive
        return query

    return run
