"""A short run of `make crash`, and that its loop would see what it looks for."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from durable_story import steps, truths

CRASH = Path(__file__).parent / "crash"
sys.path.insert(0, str(CRASH))

from engine_kills import APP, CONFIGS, Life  # noqa: E402
from tally import Tally  # noqa: E402

TIMEOUT_S = 400  # about 50 s on an idle machine


def crash(folder, *arguments):
    command = [sys.executable, str(CRASH), "--folder", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_killed_engines_lose_nothing_and_do_nothing_twice(tmp_path):
    out = crash(tmp_path, "--engine", "50", "--spark", "0", "--seed", "7")
    assert "engine: 50 kills" in out


def test_a_killed_query_loses_nothing_and_does_nothing_twice(tmp_path):
    out = crash(tmp_path, "--engine", "0", "--spark", "3", "--seed", "7")
    assert "spark: 3 kills" in out
    assert "1 handover.before" in out and "1 record.linked" in out and "1 at a random moment" in out


@pytest.mark.parametrize("acknowledged, committed", [(5, 3), (2, 4)], ids=["lost", "twice"])
def test_the_loop_would_see_it(tmp_path, acknowledged, committed):
    """A step that was acknowledged and is gone; two steps where one was under way."""
    config = {"threads": 1, **CONFIGS[0]}
    life = Life(tmp_path, config, False, truths(APP, 6), Tally(1), random.Random(1))
    life._done, life._in_doubt = acknowledged, 1
    with APP.open(tmp_path / "state") as engine:
        for step in list(steps())[:committed]:
            step.do(engine)
        with pytest.raises(AssertionError, match=f"steps {acknowledged} to {acknowledged + 1} could be there"):
            life._find(engine)
