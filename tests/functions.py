"""The user functions of generated apps, of all three kinds: their source, and what they give, told a second time.

`direct` takes the values of direct.py and gives such, or raises Failed with what the reason must begin with. Functions
are few and their sources never change, so each is compiled once in a run of the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from morphspark.types import BOOL, FLOAT64, INT64, STRING, TIMESTAMP, Type, decimal

MONEY = decimal(9, 2)


class Failed(Exception):
    pass


@dataclass(frozen=True)
class FunctionModel:
    given: tuple[Type, ...]
    results: tuple[Type, ...]
    source: str
    direct: Callable[..., Any]


def wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def fail_if(condition: bool, words: str) -> None:
    if condition:
        raise Failed(words)


def mix(a: int, b: int) -> int:
    fail_if(b == 3, "ValueError: three")
    return wrapped(a * 31 + b)


def ratio(a: float, b: float) -> float:
    fail_if(b == 0, "ZeroDivisionError: division by zero")
    return a / b


def halves(n: int, flag: bool) -> tuple[int, bool]:
    return n // 2, flag != (n % 2 == 0)


def later(t: int, n: int) -> int:
    return wrapped(t + n % 100)


def scaled(x: float, n: int) -> float:
    fail_if(n == 7, "ValueError: seven")
    return x * 0.5 + n


def parity(n: int) -> tuple[bool, int]:
    return n % 2 == 0, n // 3


def positive(n: int) -> int:
    fail_if(n <= 0, "returned an array of shape (0,) for arguments of shape (1,)")
    return n


def joined(s: str, n: int) -> str | None:
    fail_if(n == 2, f"KeyError: {s!r}"[:60].split("\\")[0].rstrip())
    return None if n == 1 else s + str(n)


def to_money(d: Fraction) -> Fraction:
    scaled_up = abs(d) * 100 + Fraction(1, 2)
    rounded = Fraction(scaled_up.numerator // scaled_up.denominator, 100)
    fail_if(rounded >= 10**7, "returned ")
    return -rounded if d < 0 else rounded


FUNCTIONS = {
    "mix": FunctionModel(
        (INT64, INT64),
        (INT64,),
        """
@ms.udf("int64")
def mix(a, b):
    if b == 3:
        raise ValueError("three")
    return a * 31 + b
""",
        mix,
    ),
    "ratio": FunctionModel(
        (FLOAT64, FLOAT64),
        (FLOAT64,),
        """
@ms.udf("float64")
def ratio(a, b):
    return a / b
""",
        ratio,
    ),
    "halves": FunctionModel(
        (INT64, BOOL),
        (INT64, BOOL),
        """
@ms.udf(["int64", "bool"])
def halves(n, flag):
    return n // 2, flag != (n % 2 == 0)
""",
        halves,
    ),
    "later": FunctionModel(
        (TIMESTAMP, INT64),
        (TIMESTAMP,),
        """
@ms.udf("timestamp")
def later(t, n):
    return t + n % 100
""",
        later,
    ),
    "scaled": FunctionModel(
        (FLOAT64, INT64),
        (FLOAT64,),
        """
@ms.udf("float64", vector=True)
def scaled(x, n):
    if (n == 7).any():
        raise ValueError("seven")
    return x * 0.5 + n
""",
        scaled,
    ),
    "parity": FunctionModel(
        (INT64,),
        (BOOL, INT64),
        """
@ms.udf(["bool", "int64"], vector=True)
def parity(n):
    return n % 2 == 0, n // 3
""",
        parity,
    ),
    "positive": FunctionModel(
        (INT64,),
        (INT64,),
        """
@ms.udf("int64", vector=True)
def positive(n):
    return n[n > 0]
""",
        positive,
    ),
    "joined": FunctionModel(
        (STRING, INT64),
        (STRING,),
        """
@ms.udf("string", python=True)
def joined(s, n):
    if n == 2:
        raise KeyError(s)
    return None if n == 1 else s + str(n)
""",
        joined,
    ),
    "to_money": FunctionModel(
        (MONEY,),
        (MONEY,),
        """
@ms.udf("decimal(9, 2)", python=True)
def to_money(d):
    return d
""",
        to_money,
    ),
}
