"""Opening a state directory: to write, which one engine does; or to read, beside whoever writes."""

from __future__ import annotations

from ..config import Config
from ..core import Progress
from ..errors import StateError
from ..program import Program
from .binding import rebound
from .failpoints import reach
from .files import FOLDER as DATA
from .history import History, beside_a_writer, read_history
from .journal import Journal
from .records import FOLDER as LOG
from .records import Bind
from .recovery import MakeCore, Recovered, evolve_core, recover
from .store import Store


def open_to_write(
    store: Store, program: Program, config: Config, make_core: MakeCore, query: str | None, evolve: str | None
) -> tuple[Journal, Recovered]:
    """The state as the last record left it, and the journal that goes on from there. Changes nothing if it raises."""
    history = read_history(store)
    if history is None:
        bind = Bind(program.name, program, query)
        journal = Journal.create(store, bind, config)
        if journal.history.last.body is bind:
            return journal, Recovered(make_core(program.tables, config), bind, Progress(), {})
        history = journal.history  # another writer was faster
    for folder in (DATA, LOG):  # a writer that died may have had no time to: what is read must stay
        store.sync(folder)
    wanted = rebound(store.location, history.bind(), program, query, evolve)
    state = recover(history, history.last.number, make_core, config)
    reach("open.recovered")
    journal = Journal(store, history, config)
    try:
        if wanted is not None:
            _rebind(journal, state, wanted, make_core, config)
    except BaseException:
        journal.close()
        state.core.close()
        raise
    return journal, state


def _rebind(journal: Journal, state: Recovered, wanted: Bind, make_core: MakeCore, config: Config) -> None:
    before = state.bind.program
    if before != wanted.program:  # what was logged until now is of another program: leave it behind a snapshot
        journal.snapshot(state.core, state.progress, state.types)
    journal.committer.run_behind(lambda: journal.append(wanted)).result()
    state.core = evolve_core(state.core, before, wanted.program, make_core, config)
    state.bind = wanted


def open_to_read(store: Store, program: Program, config: Config, make_core: MakeCore) -> tuple[History, Recovered]:
    history = read_history(store)
    if history is None:
        raise StateError(
            f"{store.location} holds no state of morphspark, so there is nothing to read; without read_only=True it is "
            f"made there"
        )
    rebound(store.location, history.bind(), program, None, None)
    return beside_a_writer(history, lambda found: recover(found, found.last.number, make_core, config))
