"""Lowering and the machine number things alike: the lists in lower.py are those of csrc/program/code.h."""

import re
from pathlib import Path

import pytest

from morphspark import lower

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
    assert list(lower.OPS) == names
    assert list(lower.OPS.values()) == list(range(len(names)))


def test_failures():
    *names, count = enumerated(CODE, "Failure")
    assert count == "Failures"
    assert list(lower.FAILURES) == [snake(name.removesuffix("Failure")) for name in names]


@pytest.mark.parametrize(
    ("enum", "names"),
    [("Comparison", lower.COMPARISONS), ("Reduction", lower.REDUCTIONS), ("Match", lower.MATCHES)],
)
def test_enums(enum, names):
    assert list(names) == [snake(name) for name in enumerated(CODE, enum)]


def test_kinds():
    assert list(lower.KINDS) == [snake(name) for name in enumerated((CSRC / "base" / "value.h").read_text(), "Kind")]
