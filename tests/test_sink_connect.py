"""The sink on Spark Connect: a real local server, and the sink in a Python process beside it.

A process has either classic Spark or Spark Connect, so the query runs in one of its own: this file, run as a
script.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

EPOCHS = 3


def test_a_query_on_spark_connect(tmp_path):
    environment = {**os.environ, "SPARK_TESTING": "1"}  # the server takes a free port
    script = subprocess.run(
        [sys.executable, __file__, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    report_file = tmp_path / "report.json"
    assert report_file.exists(), f"the script failed:\n{script.stdout[-2000:]}\n{script.stderr[-6000:]}"
    report = json.loads(report_file.read_text())

    assert "name it, Sink(…, query_id='ledger')" in report["without query_id"]
    assert report["totals"] == [[0, 1, 10], [1, 2, 30], [2, 3, 60]]  # epoch, event, total: state lives on
    assert report["types"] == {
        "ts": "int", "amount": "smallint", "pair": "struct<x:int>",
        "total": "bigint", "_epoch": "bigint", "_ts": "bigint",
    }  # fmt: skip
    calls = report["calls"]
    assert [call["epoch"] for call in calls] == list(range(EPOCHS))
    assert [call["counted"] for call in calls] == [1] * EPOCHS
    assert {call["retain_epochs"] for call in calls} == {1}, "spark.morphspark.* reaches the engine"
    assert len({call["process"] for call in calls} | {report["client process"]}) == 2, "one process serves the query"
    assert "its engine and state are there" in report["client engine"]
    assert report["continued by a new process"] == "no error"
    assert report["total then"] == 100
    assert report["state"] == [["all", 100]]
    assert "epoch 0 arrived, but epochs up to 3 are committed" in report["with a fresh checkpoint"]


def main(folder):
    from morphspark.java import ensure_java

    ensure_java()
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    import morphspark as ms

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.morphspark.retain_epochs", "1")
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    app = ms.App("sums", order_by="ts")
    sums = app.table("sums", key="string", columns={"total": "int64"}, default={"total": 0})

    @app.on()
    def add(e):
        sums["all"].total += e.amount
        return {"total": sums["all"].total}

    def output(df, epoch):
        counted = df.count()
        df.write.mode("overwrite").parquet(f"{folder}/out/epoch={epoch}")
        config = sink_in_use().engine.config
        call = {
            "epoch": epoch,
            "counted": counted,
            "process": os.getpid(),
            "retain_epochs": config.retain_epochs,
        }
        with open(f"{folder}/calls", "a") as calls:
            calls.write(json.dumps(call) + "\n")

    def pre(df):  # a null struct whose field is never null: toArrow alone would fail
        return df.withColumn("pair", F.when(F.col("ts") > 1, F.struct(F.lit(1).alias("x"))))

    def sink_in_use():
        import gc

        return next(one for one in gc.get_objects() if isinstance(one, ms.Sink))

    def message(action):
        try:
            action()
        except Exception as error:
            return str(error)
        return "no error"

    def run(sink, checkpoint="checkpoint"):
        events = spark.readStream.schema("ts int, amount short").option("maxFilesPerTrigger", 1).json(f"{folder}/feed")
        writer = events.writeStream.foreachBatch(sink).option("checkpointLocation", f"{folder}/{checkpoint}")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(120)

    def feed(number):
        file = Path(folder, "feed", f"{number}.json")
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"ts": number + 1, "amount": 10 * (number + 1)}))
        os.utime(file, (number, number))

    report = {
        "client process": os.getpid(),
        "without query_id": message(lambda: ms.Sink(app, folder, output)),
    }
    for number in range(EPOCHS):
        feed(number)
    sink = ms.Sink(app, f"{folder}/state", output, pre=pre, query_id="sums")
    run(sink)
    report["client engine"] = message(lambda: sink.engine)
    written = spark.read.parquet(f"{folder}/out")
    report["totals"] = [list(row) for row in written.select("_epoch", "ts", "total").orderBy("ts").collect()]
    report["types"] = {name: kind for name, kind in written.dtypes if name not in ("_status", "_reason", "epoch")}
    report["calls"] = [json.loads(line) for line in Path(folder, "calls").read_text().splitlines()]
    feed(EPOCHS)
    another = ms.Sink(app, f"{folder}/state", output, pre=pre, query_id="sums")
    report["continued by a new process"] = message(lambda: run(another))
    report["total then"] = spark.read.parquet(f"{folder}/out").selectExpr("max(total)").collect()[0][0]
    state = spark.read.format("morphspark").option("path", f"{folder}/state").option("table", "sums").load()
    report["state"] = [list(row) for row in state.collect()]
    fresh = ms.Sink(app, f"{folder}/state", output, pre=pre, query_id="sums")
    report["with a fresh checkpoint"] = message(lambda: run(fresh, "fresh checkpoint"))
    Path(folder, "report.json").write_text(json.dumps(report))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
