"""The query that is killed: python tests/crash/spark_job.py FOLDER

    FOLDER/feed      a Parquet file of events for each epoch
    FOLDER/state, FOLDER/checkpoint
    FOLDER/output    what the writer was given, a file for each epoch

Says `epoch N` when the writer is called for it, and `end` when nothing is left to read.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # durable_story.py

import pyarrow.parquet as pq
from durable_story import build

import morphspark as ms
from morphspark.session import local_session

# A process that lives for seconds: compiling less is faster.
CONF = {
    "spark.master": "local[2]",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.shuffle.partitions": 1,
}


def main(folder):
    spark = local_session("crash", CONF, str(folder / "spark.log"))
    schema = spark.read.parquet(str(folder / "feed" / "0000.parquet")).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "feed"))
    app = build()
    config = ms.Config(log=os.environ["CRASH_LOG"], snapshot_every=1, threads=1)  # 1: snapshots and retention always
    output, late = (writer(folder / "output", name) for name in ("rows", "late"))
    with ms.Sink(app, folder / "state", output, late_output=late, config=config) as sink:
        query = (
            stream.writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    print("end", flush=True)


def writer(folder, name):
    """Under another name first; what comes again must be the same."""

    def write(df, epoch):
        print(f"epoch {epoch}", flush=True)
        file, unfinished = folder / f"{name}-{epoch:04}.parquet", folder / f".{name}"
        pq.write_table(df.toArrow(), unfinished)
        if file.exists() and file.read_bytes() != unfinished.read_bytes():
            raise AssertionError(f"epoch {epoch} was handed over again, and differs")
        os.replace(unfinished, file)

    return write


if __name__ == "__main__":
    main(Path(sys.argv[1]))
