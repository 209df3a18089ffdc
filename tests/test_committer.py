"""Commits, as other threads see them."""

import threading

import pytest

from morphspark.durable.committer import Committer


@pytest.fixture
def committer():
    made = Committer()
    yield made
    made.close()


@pytest.mark.parametrize("look", ["settle", "settle_ahead", "wait_shown"])
@pytest.mark.parametrize("ahead", [False, True])
def test_whoever_looks_before_it_is_queued_does_not_cancel_it(committer, look, ahead):
    done, put = [], committer._worker.put

    def put_late(task):
        other = threading.Thread(target=getattr(committer, look))
        other.start()
        other.join()
        put(task)

    committer._worker.put = put_late
    how = committer.commit_ahead if ahead else committer.commit
    result = how(lambda: done.append("written") or 7, lambda: done.append("shown"))
    assert (result.result() if ahead else result) == 7
    assert sorted(done) == ["shown", "written"]


def test_many_wait_for_one(committer):
    go_on = threading.Event()
    task = committer.commit_ahead(go_on.wait, lambda: None)
    waiting = [threading.Thread(target=committer.settle_ahead) for _ in range(5)]
    for thread in waiting:
        thread.start()
    assert not task.over and all(thread.is_alive() for thread in waiting)
    go_on.set()
    for thread in waiting:
        thread.join(10)
    assert task.over and not any(thread.is_alive() for thread in waiting)
