"""What a trace alone would not show: Python values that count iterations, and jumps out of a `with ms.when`."""

import os
import resource
import subprocess
import sys

import pyarrow as pa
import pytest

import morphspark as ms


def refuses(transaction, *words):
    app = ms.App("app", events={"x": "int64", "ks": "list<int64>"})
    with pytest.raises(ms.TraceError) as caught:
        app.on()(named(transaction))
    for word in words:
        assert word in str(caught.value)


def named(function):
    if function.__name__ == "<lambda>":
        function.__name__ = "transaction"
    return function


def test_a_counter_that_leaves_the_loop():
    def transaction(e):
        n = 0
        for _ in ms.each(e.ks):
            n += 1
        return {"n": n}

    refuses(transaction, "Python value that changes", "ms.count")


def test_the_length_of_a_list_of_elements():
    def transaction(e):
        return {"n": len(list(ms.each(e.ks)))}

    refuses(transaction, "Python value that changes")


def test_enumerate():
    def transaction(e):
        last = 0
        for index, _ in enumerate(ms.each(e.ks)):
            last = index
        return {"n": last}

    refuses(transaction, "Python value that changes")


def test_return_in_a_when_of_another_name():
    def transaction(e):
        block = ms.when(e.x > 0)
        with block:
            return {"a": 1}

    refuses(transaction, "`return` inside `with ms.when", "ms.where")


def test_return_in_a_when_below_a_string_at_the_margin():
    def transaction(e):
        """A docstring
        with a line at the margin."""
        with ms.when(e.x > 0):
            return {"a": 1}

    refuses(transaction, "`return` inside `with ms.when")


def test_comparison_with_none():
    refuses(lambda e: {"a": e.x == None}, ".is_null()")  # noqa: E711


def test_on_a_set_has_one_hash():
    hashes = set()
    for seed in ("1", "2", "3"):
        source = (
            "import morphspark as ms\n"
            "app = ms.App('a')\n"
            "@app.on(kind={'a', 'b', 'c', 'd'})\n"
            "def t(e): pass\n"
            "print(app.program.hash)"
        )
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True
        )
        hashes.add(done.stdout)
    assert len(hashes) == 1


def test_on_without_parentheses():
    app = ms.App("a")
    with pytest.raises(ms.TraceError, match=r"write @app.on\(\)"):

        @app.on
        def t(e):
            pass


def test_deeply_nested_where_is_linear():
    """Every arm's guard is as long as it is deep; the code that checks them is not."""
    app = ms.App("deep", events={"x": "int64"})

    @app.on()
    def t(e):
        value = e.x * 0
        for depth in range(600):
            value = ms.where(e.x == depth, e.x + depth, value)
        return {"value": value}

    with app.open() as engine:
        result = engine.process(pa.table({"x": [0, 1, 599, 1000]}))
    assert result["value"].to_pylist() == [0, 2, 1198, 0]


def test_deep_guards_take_little_memory():
    """Each step stands under all conditions after it. Lists of conditions for each would take gigabytes."""
    app = ms.App("deep", events={"x": "int64"})
    depth = 1000

    @app.on()
    def t(e):
        conditions = [e.x < n for n in range(depth)]
        value = e.x * 0
        for condition in conditions:
            value = ms.where(condition, value + 1, -1)
        return {"value": value}

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with app.open() as engine:
        result = engine.process(pa.table({"x": [-1, 1, depth]}))
    assert result["value"].to_pylist() == [depth, depth - 3, -1]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB
