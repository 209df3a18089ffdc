"""Loops over ms.each, reductions and `with ms.when`: what a trace of them may not do."""

import pytest
from declared import refused, returning

import morphspark as ms

# -------------------------------------------------------------------------------------------------------- loops


def test_value_carried_to_the_next_iteration(declared):
    def transaction(e):
        total = 0
        for k in ms.each(e.li):
            total = total + k
        return {"total": total}

    refused(declared, transaction, "carried from one iteration", "ms.sum", "keep it in a table")


def test_row_handle_carried(declared):
    def transaction(e):
        last = declared.t[0]
        for k in ms.each(e.li):
            last.v = k
            last = declared.t[k]

    refused(declared, transaction, "carried from one iteration")


def test_python_counter(declared):
    def transaction(e):
        for index, k in enumerate(ms.each(e.li)):
            declared.t[k].v = index

    refused(declared, transaction, "Python value that changes", "counter")


def test_python_flag_that_changes(declared):
    def transaction(e):
        first = True
        for k in ms.each(e.li):
            if first:
                declared.t[k].v = 1
            first = False

    refused(declared, transaction, "Python value that changes")


def test_value_used_after_the_loop(declared):
    def transaction(e):
        for k in ms.each(e.li):
            last = k
        return {"last": last}

    refused(declared, transaction, "is used after it", "which iteration's?")


def test_values_collected_in_a_list(declared):
    def transaction(e):
        found = [k + 1 for k in ms.each(e.li)]
        declared.t[0].v = found[0]

    refused(declared, transaction, "is used after it")


def test_inner_loop_value_used_in_the_outer(declared):
    def transaction(e):
        for a in ms.each(e.li):
            for b in ms.each(e.lj):
                seen = b
            declared.t[a].v = seen

    refused(declared, transaction, "is used after it")


def test_break(declared):
    def transaction(e):
        for k in ms.each(e.li):
            declared.t[k].v = 1
            break

    refused(declared, transaction, "`break` and `return` inside ms.each", "with ms.when")


def test_break_in_the_second_iteration(declared):
    def transaction(e):
        for index, k in enumerate(ms.each(e.li)):
            if index == 1:
                break
            declared.t[k].v = 1

    refused(declared, transaction, "`break` and `return` inside ms.each")


def test_break_out_of_an_inner_loop(declared):
    def transaction(e):
        for a in ms.each(e.li):
            for _ in ms.each(e.lj):
                break
            declared.t[a].v = 1

    refused(declared, transaction, "`break` and `return` inside ms.each")


def test_return_in_a_loop(declared):
    def transaction(e):
        for k in ms.each(e.li):
            return {"k": k}

    refused(declared, transaction, "`break` and `return` inside ms.each")


def test_loops_in_step(declared):
    def transaction(e):
        for a, b in zip(ms.each(e.li), ms.each(e.lj), strict=True):
            declared.t[a].v = b

    refused(declared, transaction, "go in step", "ms.each(e.a, e.b)")


def test_continue_and_else_are_plain_python(declared):
    @declared.app.on()
    def transaction(e):
        for k in ms.each(e.li):
            declared.t[k].v = 1
            continue
        else:
            declared.t[0].v = 2

    assert [step.op for step in declared.app.program.transactions[0].steps].count("write") == 2


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        (lambda e: ms.each(), "at least one list"),
        (lambda e: ms.each(e.i), "not int64"),
        (lambda e: ms.each([1, 2]), "a plain `for`"),
        (lambda e: ms.each(e), "ms.each takes list columns"),
        (lambda e: ms.each(e.li, 3), "ms.each takes list columns"),
    ],
)
def test_each_takes_list_columns(declared, lists, words):
    def transaction(e):
        for _ in lists(e):
            pass

    refused(declared, transaction, words)


# ------------------------------------------------------------------------------------------------- empty lists
# With an empty list the body never runs: what a trace of it leaves behind in Python would be wrong for that event.


def test_constant_carried_out_of_a_loop(declared):
    def transaction(e):
        fee, m = 0, None
        for _ in ms.each(e.li):
            fee = 10
            m = e.i
        declared.t[e.i].v += fee
        return {"fee": fee, "m": m}

    line = transaction.__code__.co_firstlineno + 5
    refused(
        declared, transaction, "sets, and an empty list never runs the body", f"(test_trace_control.py:{line}): ",
        f"ms.each (test_trace_control.py:{line - 3})", "ms.where(ms.count(e.items) > 0, a, b)",
    )  # fmt: skip


def test_constant_carried_into_a_returned_column(declared):
    def transaction(e):
        fee = 0
        for _ in ms.each(e.li):
            fee = 10
        return {"fee": fee}

    refused(declared, transaction, "returned column 'fee'", "an empty list never runs the body")


def test_returned_columns_that_only_a_loop_adds(declared):
    def transaction(e):
        columns = {}
        for _ in ms.each(e.li):
            columns["x"] = 1
        return columns

    refused(declared, transaction, "returned column 'x'", "an empty list never runs the body")


def test_name_bound_only_in_a_loop(declared):
    def transaction(e):
        for _ in ms.each(e.li):
            fee = 10
        return {"fee": fee}

    refused(declared, transaction, "an empty list never runs the body", "'fee'")


def test_flag_set_in_a_loop(declared):
    def transaction(e):
        seen = False
        for _ in ms.each(e.li):
            seen = True
        if seen:
            declared.t[e.i].v = 1

    refused(declared, transaction, "an empty list never runs the body")


def test_set_filled_in_a_loop(declared):
    def transaction(e):
        kinds = set()
        for _ in ms.each(e.li):
            kinds.add("item")
        declared.t[e.i].v = len(kinds)

    refused(declared, transaction, "an empty list never runs the body")


def test_first_of_what_a_loop_collects(declared):
    def transaction(e):
        fees = [10 for _ in ms.each(e.li)]
        declared.t[e.i].v = fees[0]

    refused(declared, transaction, "an empty list never runs the body", "IndexError")


def test_flag_set_in_a_generator(declared):
    def transaction(e):
        seen = []
        total = ms.sum(seen.append(1) or k for k in ms.each(e.li))
        return {"total": total, "seen": bool(seen)}

    refused(declared, transaction, "returned column 'seen'", "an empty list never runs the body")


def test_constant_carried_out_of_an_inner_loop(declared):
    def transaction(e):
        for a in ms.each(e.li):
            fee = 0
            for _ in ms.each(e.lj):
                fee = 10
            declared.t[a].v += fee

    line = transaction.__code__.co_firstlineno + 3
    refused(declared, transaction, f"ms.each (test_trace_control.py:{line})")


def test_constant_carried_from_loop_to_loop(declared):
    def transaction(e):
        fee = 0
        for _ in ms.each(e.li):
            fee = 10
        for k in ms.each(e.lj):
            declared.t[k].v += fee

    refused(declared, transaction, "an empty list never runs the body")


def test_constant_that_a_second_loop_sets_back(declared):
    def transaction(e):
        fee = 0
        for _ in ms.each(e.li):
            fee = 10
        for _ in ms.each(e.lj):
            fee = 0
        declared.t[e.i].v += fee

    refused(declared, transaction, "an empty list never runs the body")


def test_constant_that_two_loops_set(declared):
    def transaction(e):
        fee = 0
        for _ in ms.each(e.li):
            fee = 10
        for _ in ms.each(e.ls):
            fee = 10
        for k in ms.each(e.lj):
            declared.t[k].v += fee

    refused(declared, transaction, "an empty list never runs the body")


@pytest.mark.parametrize("carrier", range(9))
def test_constant_carried_among_many_loops(declared, carrier):
    def transaction(e):
        fee = 0
        for number in range(9):
            for k in ms.each(e.li):
                if number == carrier:
                    fee = 10
                else:
                    declared.t[k].v = fee
        declared.t[e.i].v += fee

    refused(declared, transaction, "an empty list never runs the body")


def test_loops_that_carry_nothing(declared):
    """Nested loops, under conditions, with names of their own, and reductions of every kind behind them."""
    t = declared.t

    @declared.app.on()
    def transaction(e):
        half = e.i / e.j  # used in bodies only, and there under a condition
        with ms.when(e.i > 3):
            for a in ms.each(e.li):
                double = a * 2
                for b, c in ms.each(e.lj, e.li):
                    t[b].v += ms.sum(t[k].v + c for k in ms.each(e.li))
                    with ms.when(double > b):
                        t[double].f = half
        for a in ms.each(e.lj):
            t[a].s = ms.max(e.ls) + ms.min(t[k].s for k in ms.each(e.li))
        smallest = ms.min(t[k].v for k in ms.each(e.li)) + ms.sum(e.lj)
        ms.require(ms.where(smallest > 3, ms.any(t[k].v > 3 for k in ms.each(e.li)), ms.all(e.lb)))
        t[e.i].v = smallest // ms.count(k for k in ms.each(e.lj))
        return {"mean": ms.mean(t[k].v for k in ms.each(e.li)), "first": ms.max(t[k].s for k in ms.each(e.lj))}

    assert len(declared.app.program.transactions) == 1


# --------------------------------------------------------------------------------------------------- reductions


@pytest.mark.parametrize(
    ("reduction", "words"),
    [
        (lambda e: ms.sum(e.i), "not int64"),
        (lambda e: ms.sum(5), "a list column or a generator"),
        (lambda e: ms.sum(e.ls), "takes numbers, not string"),
        (lambda e: ms.mean(e.lb), "takes numbers, not bool"),
        (lambda e: ms.sum(e.t for _ in ms.each(e.li)), "takes numbers, not timestamp"),
        (lambda e: ms.min(e.lb), "no order for bool"),
        (lambda e: ms.any(e.li), "(bool), not int64"),
        (lambda e: ms.all(e.li), "(bool), not int64"),
        (lambda e: ms.min(), "at least one argument"),
        (lambda e: ms.coalesce(), "at least one argument"),
        (lambda e: ms.max(e.b, e.b), "no order for bool"),
        (lambda e: ms.min(e.i, e.s), "int64 and string"),
        (lambda e: ms.sum(x for x in [e.i, e.s]), "int64 and string"),
    ],
)
def test_reduction_misuse(declared, reduction, words):
    refused(declared, returning(reduction), words)


# ----------------------------------------------------------------------------------------------------- when blocks


def test_return_inside_when(declared):
    def transaction(e):
        with ms.when(e.b):
            return {"x": 1}

    refused(declared, transaction, "`return` inside `with ms.when", "would happen always", "ms.where")


def test_continue_inside_when(declared):
    def transaction(e):
        for k in ms.each(e.li):
            with ms.when(e.b):
                continue
            declared.t[k].v = 1

    refused(declared, transaction, "`continue` inside `with ms.when")


def test_return_inside_when_of_a_helper(declared):
    def helper(row, condition):
        with ms.when(condition):
            row.v = 1
            return 1
        return 2

    def transaction(e):
        return {"x": helper(declared.t[0], e.b) + e.i}

    refused(declared, transaction, "of helper: `return` inside `with ms.when")


def test_loops_inside_when_keep_their_jumps(declared):
    @declared.app.on()
    def transaction(e):
        with ms.when(e.b):
            for n in range(5):
                if n == 2:
                    break
                declared.t[n].v = 1

    assert len(declared.app.program.transactions[0].write_set) == 2


def test_when_across_iterations(declared):
    def transaction(e):
        block = None
        for _ in ms.each(e.li):
            if block is None:
                block = ms.when(e.b)
                block.__enter__()

    refused(declared, transaction, "must end in the same iteration")
