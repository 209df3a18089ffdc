"""A job to copy: transactions over a stream, started by spark-submit.

    .venv/bin/spark-submit \\
        --driver-java-options -Dlog4j2.configurationFile=file:conf/log4j2-quiet.properties \\
        --conf spark.morphspark.threads=2 \\
        conf/ledger_submit.py --folder runs/submit --epochs 20

Settings of the engine are Spark conf keys `spark.morphspark.*`; conf/ledger.toml lists them, in [engine].
"""

import argparse
import os
import tempfile

from pyspark.sql import SparkSession

import morphspark as ms
from morphspark.apps import streaming_ledger

parser = argparse.ArgumentParser()
parser.add_argument("--folder", help="where state, checkpoint and output go; default: a new temporary folder")
parser.add_argument("--epochs", type=int, default=20, help="micro-batches to run")
parser.add_argument("--rows-per-batch", type=int, default=50_000)
options = parser.parse_args()
# Started again with the same folder, it goes on where it was: state, checkpoint and output belong together.
folder = os.path.abspath(options.folder or tempfile.mkdtemp(prefix="ledger-"))

spark = SparkSession.builder.appName("ledger").getOrCreate()

# 1. The application. Write your own tables and transactions here; see morphspark/apps/streaming_ledger.py.
app = streaming_ledger.build()

# 2. The events. Read your own here, for example from Kafka:
#      spark.readStream.format("kafka").option("subscribe", "ledger").load()
#    and turn them into columns with Sink(pre=…).
events = streaming_ledger.stream(spark, options.rows_per_batch)


# 3. The results: one row per event, with _status, _reason and what the transaction returned. An epoch may be
#    handed over twice after a failure, always with the same rows; a folder per epoch makes that harmless.
def write(df, epoch):
    df.write.mode("overwrite").parquet(f"{folder}/output/epoch={epoch}")


with ms.Sink(app, path=f"{folder}/state", output=write) as sink:
    query = (
        events.writeStream.foreachBatch(sink)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .start()
    )  # fmt: skip
    # A service would call query.awaitTermination() and never come back.
    while sink.last_progress is None or sink.last_progress["epoch"] + 1 < options.epochs:
        query.awaitTermination(0.5)  # in seconds; raises if the query failed
    sink.stop(query)

    accounts = sink.engine.table("accounts").to_pandas()
    print(f"epochs up to {sink.last_progress['epoch']}, {len(accounts)} accounts; the richest:")
    print(accounts.nlargest(5, "balance").to_string(index=False))

results = spark.read.parquet(f"{folder}/output")
results.groupBy("kind", "_status", "_reason").count().orderBy("kind", "_status").show(truncate=False)
print(f"everything is in {folder}")
spark.stop()
