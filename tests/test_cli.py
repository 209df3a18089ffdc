"""The command line, as a user starts it."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import morphspark as ms
from morphspark.cli import main
from morphspark.jobs import RUN_MARKER, LedgerJob, command, print_speed, read_job, run_folder
from morphspark.progress import LiveLine, Tally, bytes_text, percentile

ROOT = Path(__file__).parent.parent
LEDGER = str(ROOT / "conf" / "ledger.toml")
SMALL = ["--rows-per-batch", "500"]
TIMEOUT_S = 240  # each takes about 15 s on an idle machine


def start(arguments, folder):
    return subprocess.Popen(
        [sys.executable, "-m", "morphspark.cli", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_run_streams_the_ledger_and_conserves_money(tmp_path):
    process = start(["run", LEDGER, "--seconds", "5", *SMALL], tmp_path)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, out + err
    assert "\nmoney conserved\n" in out
    assert err == "", "Spark's log goes to a file"
    for shown in ("events/s", "committed", "aborted", "first epoch", "try next", "bin/spark-submit conf/ledger"):
        assert shown in out
    (run,) = (tmp_path / "runs").iterdir()
    folders = {"checkpoint", "output", "state", "tables"}
    assert {one.name for one in run.iterdir()} == {".morphspark-run", "spark.log", *folders}
    assert {one.name for one in (run / "tables").glob("*.parquet")} == {"accounts.parquet", "assets.parquet"}
    assert str(run.relative_to(tmp_path)) in out


def test_ctrl_c_ends_a_run_with_the_summary(tmp_path):
    process = start(["run", LEDGER, "--seconds", "600", *SMALL], tmp_path)
    for line in process.stdout:
        if line.startswith("epoch"):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, out + err
    assert "stopping after this epoch" in out
    assert "\nmoney conserved\n" in out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["run", "missing.toml"], "missing.toml: no such file"),
        (["run", "broken.toml"], "broken.toml: not valid TOML"),
        (
            ["run", "unknown.toml"],
            "unknown.toml: unknown setting 'colour' in [job]; expected one of name, seconds",
        ),
        (["run", "section.toml"], "section.toml: unknown section [jobs]; expected job, engine, spark"),
        (["run", "engine.toml"], "engine.toml: unknown setting 'thread'"),
        (["run", "type.toml"], "job.accounts = 'many': expected a value of type int"),
        (["run", "theta.toml"], "job.theta = -1: expected 0 or more"),
        (["run", "name.toml"], "job.name = 'word-count': there is one job"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, arguments, message):
    files = {
        "broken": "[job",
        "unknown": "[job]\ncolour = 'blue'",
        "section": "[jobs]\nseconds = 3",
        "engine": "[engine]\nthread = 2",
        "type": "[job]\naccounts = 'many'",
        "theta": "[job]\ntheta = -1",
        "name": "[job]\nname = 'word-count'",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"morphspark: {message}")
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_settings_that_spark_does_not_take(tmp_path):
    conf = tmp_path / "memory.toml"
    conf.write_text('[spark]\n"spark.driver.memory" = "plenty"')
    process = start(["run", str(conf)], tmp_path)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 2
    assert err.startswith("morphspark: Spark did not start: [JAVA_GATEWAY_EXITED]") and err.count("\n") == 1
    (log,) = (tmp_path / "runs").rglob("spark.log")
    assert "plenty" in log.read_text()


@pytest.mark.parametrize("arguments", [[], ["walk"], ["run"], ["run", LEDGER, "--rows-per-batch", "0"]])
def test_a_wrong_command_line_is_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: morphspark" in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"morphspark {ms.__version__}\n"


def test_the_example_file_holds_the_defaults_and_explains_them_all():
    job, config, _ = read_job(LEDGER, {})
    assert job == type(job)()
    assert config == ms.Config()
    text = Path(LEDGER).read_text()
    settings = re.findall(r"^(?:# )?([a-z_]+) = ", text, flags=re.MULTILINE)
    fields = {*type(job).__dataclass_fields__, *ms.Config.__dataclass_fields__} - {"clock"}  # a clock is code
    assert set(settings) == fields


def test_the_example_job_runs_by_spark_submit(tmp_path):
    submit = Path(sys.executable).parent / "spark-submit"
    done = subprocess.run(
        [
            str(submit),
            "--conf",
            "spark.morphspark.threads=1",
            "--conf",
            "spark.ui.enabled=false",
            "--driver-java-options",
            f"-Dlog4j2.configurationFile=file:{ROOT / 'conf' / 'log4j2-quiet.properties'}",
            str(ROOT / "conf" / "ledger_submit.py"),
            "--folder",
            str(tmp_path),
            "--epochs",
            "2",
            "--rows-per-batch",
            "200",
        ],  # fmt: skip
        env=submit_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the richest:" in done.stdout and f"everything is in {tmp_path}" in done.stdout
    assert re.search(r"transfer\|aborted +\|require: insufficient funds", done.stdout)


def submit_environment():
    """`make build` lets spark-submit find Spark and Python by itself; a test may run without it."""
    import os

    import pyspark

    home = os.environ.get("SPARK_HOME", str(Path(pyspark.__file__).parent))
    return {
        **os.environ,
        "SPARK_HOME": home,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


# ------------------------------------------------------------------------------------------- what is shown


def test_speed_is_that_of_the_warm_epochs_which_spark_measured(capsys):
    tally = Tally()
    stages = {"to_arrow_ms": 40, "process_ms": 20, "write_ms": 10, "output_ms": 20}
    for epoch in range(4):
        tally.add({"epoch": epoch, "events": 50, "committed": 49, "aborted": 1, **stages})
    print_speed(LedgerJob(rows_per_batch=50), tally, {0: 3000, 1: 100, 2: 300})  # epoch 3: not reported
    assert capsys.readouterr().out.splitlines() == [
        "  first epoch   3.0 s, in which Spark warms up; not counted below",
        "  throughput    250 events/s",
        "  latency       p50 100 ms  p95 300 ms  p99 300 ms  per micro-batch of 50 events",
        "  spent on      reading events 20%, transactions 10%, logging and storing results 5%, output 10%, "
        "Spark's own steps 55%",
    ]


def test_speed_of_more_epochs_than_spark_remembers(capsys):
    tally = Tally()
    stages = {"to_arrow_ms": 40, "process_ms": 20, "write_ms": 10, "output_ms": 20}
    for epoch in range(300):
        tally.add({"epoch": epoch, "events": 50, "committed": 49, "aborted": 1, **stages})
    print_speed(LedgerJob(rows_per_batch=50), tally, dict.fromkeys(range(200, 300), 100))
    assert capsys.readouterr().out.splitlines()[:2] == [
        "  measured      the last 100 epochs; Spark has forgotten those before",
        "  throughput    500 events/s",
    ]


def test_programs_are_named_so_that_they_can_be_called(monkeypatch):
    folder = Path(sys.executable).parent
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(folder.parent.parent)
    assert command("spark-submit") == f"{folder.parent.name}/bin/spark-submit"
    monkeypatch.chdir("/")
    assert command("spark-submit") == str(folder / "spark-submit").removeprefix("/")
    monkeypatch.setenv("PATH", str(folder))
    assert command("spark-submit") == "spark-submit"


# --------------------------------------------------------------------------------------------- run folders


def test_old_runs_make_room_and_nothing_else_does(tmp_path):
    job = LedgerJob(runs=str(tmp_path), keep_runs=2)

    def make(name, ours=True):
        (tmp_path / name / "output").mkdir(parents=True)
        if ours:
            (tmp_path / name / RUN_MARKER).touch()
        return tmp_path / name

    others = [
        make("ledger-backup"),
        make("ledger-20200101-000000-important"),
        make("ledger-20200101-000001", ours=False),
        make("somewhere else"),
        make("ledger-2020"),
    ]
    link = tmp_path / "ledger-20200101-000002"
    link.symlink_to(others[3])
    old = [make(f"ledger-20200102-00000{n}") for n in range(3)]
    with run_folder(job) as first:
        assert [one.exists() for one in old] == [False, False, True]
        assert all(one.exists() for one in (*others, link))
        running = first.rename(tmp_path / "ledger-20190101-000000")  # the oldest by name, and at work
        with run_folder(LedgerJob(runs=str(tmp_path), keep_runs=1)) as second:
            assert running.exists() and not old[2].exists()
    second.rename(old[0])
    with run_folder(LedgerJob(runs=str(tmp_path), keep_runs=1)):
        assert not running.exists() and not old[0].exists()
        assert all(one.exists() for one in (*others, link))


def test_percentiles():
    values = list(range(100, 0, -1))
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99)] == [50, 95, 99]
    assert percentile([7], 0.99) == 7


def test_sizes():
    assert [bytes_text(size) for size in (0, 999, 1_500, 2_500_000, 3e9)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "2.5 MB",
        "3.0 GB",
    ]


class Screen:
    def __init__(self, terminal):
        self.text, self.isatty = "", lambda: terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_a_terminal_has_one_line_that_is_overwritten():
    screen = Screen(terminal=True)
    line = LiveLine(screen)
    line.show("epoch 1, long")
    line.show("epoch 2")
    line.end()
    assert screen.text == "\repoch 1, long\repoch 2      \n"


def test_elsewhere_there_is_a_line_now_and_then():
    screen = Screen(terminal=False)
    line = LiveLine(screen)
    for epoch in range(3):
        line.show(f"epoch {epoch}")
    line.end()
    assert screen.text == "epoch 0\n"
