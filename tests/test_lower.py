"""Lowering and the machine number things alike: the lists in machine_code.py are those of csrc/program/code.h."""

import re
from pathlib import Path

import pytest

from morphspark import machine_code

CSRC = Path(__file__).parent.parent / "csrc"
CODE = (CSRC / "program" / "code.h").read_text()


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def enumerated(text, name):
    """The names of an enum, in order, without their k."""
    (body,) = re.findall(rf"enum (?:class )?{name} : \w+ \{{(.*?)\}};", text, flags=re.DOTALL)
    return re.findall(r"\bk(\w+)", re.sub(r"//.*", "", body))


def test_operations():
    (macro,) = re.findall(r"#define MORPHSPARK_OPS\(X\)(.*?[^\\])\n", CODE, flags=re.DOTALL)
    names = re.findall(r"X\((\w+)\)", macro)
    assert len(names) > 50
    assert list(machine_code.OPS) == names
    assert list(machine_code.OPS.values()) == list(range(len(names)))


def test_failures():
    *names, count = enumerated(CODE, "Failure")
    assert count == "Failures"
    assert list(machine_code.FAILURES) == [snake(name.removesuffix("Failure")) for name in names]


@pytest.mark.parametrize(
    ("enum", "names"),
    [("Comparison", machine_code.COMPARISONS), ("Reduction", machine_code.REDUCTIONS), ("Match", machine_code.MATCHES)],
)
def test_enums(enum, names):
    assert list(names) == [snake(name) for name in enumerated(CODE, enum)]


def test_kinds():
    assert list(machine_code.KINDS) == [
        snake(name) for name in enumerated((CSRC / "base" / "value.h").read_text(), "Kind")
    ]
