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
