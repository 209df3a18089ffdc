"""What stands inside `with ms.when(…):` as if it were conditional, and is not: found in the source."""

import linecache
import textwrap

import pytest
from declared import Declared, refused

import morphspark as ms


def function(body, source=True):
    """A transaction with this body, over `t`; `c` and `d` are conditions."""
    declared = Declared()
    text = (
        "def transaction(e):\n    c, d = e.i > 1, e.i > 2\n"
        + textwrap.indent(textwrap.dedent(body).strip(), "    ")
        + "\n"
    )
    name = "<typed>" if source else "<unknown>"
    if source:
        linecache.cache[name] = (0, None, text.splitlines(keepends=True), name)
    names = {"ms": ms, "t": declared.t}
    exec(compile(text, name, "exec"), names)
    return declared, names["transaction"]


REBOUND = {
    "a constant": """
        fee = 0
        with ms.when(c):
            fee = 10
        t[e.i].v += fee
    """,
    "a traced value": """
        fee = e.j
        with ms.when(c):
            fee = e.j * 2
        return {"fee": fee}
    """,
    "an increase": """
        fee = 0
        with ms.when(c):
            fee += 10
        return {"fee": fee}
    """,
    "one of several names": """
        fee = tax = 0
        with ms.when(c):
            (fee, other), tax = (1, 2), 3
            t[0].v = fee + tax
        t[e.i].v = tax
    """,
    "one way of two": """
        with ms.when(c):
            fee = 10
        with ms.when(~c):
            fee = 20
        t[e.i].v += fee
    """,
    "an inner block": """
        with ms.when(c):
            fee = 0
            with ms.when(d):
                fee = 10
            t[e.i].v += fee
    """,
    "read in a condition": """
        fee = e.j
        with ms.when(c):
            fee = e.i
        with ms.when(fee > 3):
            t[e.i].v = 1
    """,
    "read on one way": """
        fee = 0
        with ms.when(c):
            fee = 10
        if t is None:
            fee = 1
        t[e.i].v = fee
    """,
    "read in the next round": """
        last = 0
        for n in range(3):
            t[n].v = last
            with ms.when(c):
                last = n
    """,
    "the last of a loop": """
        for n in range(3):
            with ms.when(e.i > n):
                found = n
        t[e.i].v = found
    """,
    "the last of a loop, read in it, too": """
        for n in range(3):
            with ms.when(e.i > n):
                found = n
            t[n].v = found
        t[e.i].v = found
    """,
    "bound later in a loop": """
        for n in range(3):
            with ms.when(c):
                x = e.i
            t[n].v = x
            x = e.j
    """,
    "an argument": """
        with ms.when(c):
            e = 5
        t[0].v = e
    """,
    "by :=": """
        fee = 0
        with ms.when(c):
            t[0].v = (fee := 10)
        t[1].v = fee
    """,
    "a function reads it": """
        fee = 0
        with ms.when(c):
            fee = 10
        def later():
            return fee
        t[1].v = later()
    """,
    "a global": """
        global fee
        with ms.when(c):
            fee = 10
    """,
    "after a try": """
        fee = 0
        try:
            with ms.when(c):
                fee = 10
        finally:
            t[0].v = 1
        return {"fee": fee}
    """,
}


@pytest.mark.parametrize("body", REBOUND.values(), ids=REBOUND)
def test_a_name_that_gets_another_value(body):
    declared, transaction = function(body)
    message = refused(declared, transaction, "inside `with ms.when(…):` would happen always", "used after the block")
    name = message.split("`")[1].split()[0]
    assert f"{name} = ms.where(c, …, {name})" in message


FINE = {
    "used inside only": """
        with ms.when(c):
            fee = 10
            t[e.i].v += fee
    """,
    "used inside only, twice": """
        fee = 3
        t[0].v = fee
        with ms.when(c):
            fee = 10
            t[e.i].v += fee
        with ms.when(d):
            fee = 20
            t[e.i].v += fee
        fee = 30
        t[1].v = fee
    """,
    "computed always": """
        with ms.when(c):
            half = e.i // 2
            t[e.i].v = half
        return {"half": half}
    """,
    "in a loop, of its own": """
        for n in range(3):
            with ms.when(e.i > n):
                x = e.i * n
                t[n].v = x
            t[n].v = x
    """,
    "in ms.each": """
        for k in ms.each(e.li):
            double = k * 2
            with ms.when(k > 3):
                half = k // 2
                t[k].v = half + double
            t[k].v += half
    """,
    "a loop's name": """
        for n in range(2):
            t[n].v = n
        with ms.when(c):
            for n in range(3):
                t[n].v = n
        for n in range(2):
            t[n].v = n
    """,
    "a comprehension's name": """
        n = 1
        with ms.when(c):
            t[0].v = sum([n for n in range(3)])
        t[n].v = 0
    """,
    "a comprehension's name later": """
        n = e.i
        with ms.when(c):
            n = e.j
            t[0].v = n
        t[1].v = sum([n for n in range(3)])
    """,
    "bound again by a with": """
        fee = 0
        with ms.when(c):
            fee = 10
            t[0].v = fee
        with ms.when(d):
            fee = 20
        n = 1
    """,
    "columns, not names": """
        row, seen = t[e.i], {}
        with ms.when(c):
            row.v = 1
            t[0].v += 1
        return {"v": row.v}
    """,
    "before a return": """
        fee = 0
        with ms.when(c):
            fee = 10
            t[0].v = fee
        return {"x": e.i + 1}
    """,
    "a function of its own": """
        fee = 0
        with ms.when(c):
            def charge(fee):
                fee = fee + 1
                return fee
            t[0].v = charge(1)
        t[1].v = fee
    """,
}


@pytest.mark.parametrize("body", FINE.values(), ids=FINE)
def test_names_that_may_be_bound_in_a_block(body):
    declared, transaction = function(body)
    declared.app.on()(transaction)


def test_a_function_without_source():
    body = """
        with ms.when(c):
            return {"x": 1}
        return {"x": 2}
    """
    refused(*function(body, source=False), "the source of transaction can't be read", "in a file or a notebook")
    refused(*function(body), "line 4 of transaction: `return` inside `with ms.when")
    declared, transaction = function("t[0].v = ms.where(c, 1, 2)", source=False)
    declared.app.on()(transaction)
