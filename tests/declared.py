"""For tests of tracing: an app with known event types, and what its functions may not do."""

import pytest

import morphspark as ms

EVENTS = {
    "i": "int64", "j": "int64", "f": "float64", "s": "string", "b": "bool", "t": "timestamp", "d": "decimal(9, 2)",
    "li": "list<int64>", "lj": "list<int64>", "ls": "list<string>", "lb": "list<bool>",
}  # fmt: skip


class Declared:
    """An app with known event types, and two tables."""

    def __init__(self, events=EVENTS):
        self.app = ms.App("app", events=events)
        self.t = self.app.table("t", key="int64", columns={"v": "int64", "f": "float64", "s": "string"},
                                default={"v": 0, "f": 0.0, "s": ""})  # fmt: skip
        self.pairs = self.app.table("pairs", key={"x": "int64", "y": "string"}, columns={"d": "decimal(6, 2)"})


def refused(declared, function, *words, error=ms.TraceError):
    """The function can't be traced, and the message has all these words."""
    with pytest.raises(error) as caught:
        declared.app.on()(function)
    message = str(caught.value)
    for word in words:
        assert word in message, f"{word!r} is not in {message!r}"
    assert declared.app.program.transactions == ()
    return message


def returning(expression):
    """A transaction that returns one value."""

    def transaction(e):
        return {"x": expression(e)}

    return transaction
