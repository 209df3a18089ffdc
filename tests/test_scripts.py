"""Every file in scripts/ on both engines; scenario.py says what such a file looks like."""

from pathlib import Path

import pytest
import scenario

SCRIPTS = sorted(Path(__file__).with_name("scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path):
    scenario.run_file(path)


def test_there_are_scripts():
    assert len(SCRIPTS) >= 25


def test_a_wrong_expectation_is_found():
    path = next(path for path in SCRIPTS if path.stem == "transfer_to_oneself")
    wrong = path.read_text().replace("committed", "unmatched")
    with pytest.raises(AssertionError, match="_status is committed, expected unmatched"):
        scenario.run(wrong)
