"""Epochs that survive: one log, one writer, and what it takes to read both again.

    disk        the few calls to the operating system that durability rests on
    store       a state directory's files: on a local disk, or in an object store with a conditional put
    files       data files: changed rows, commands, snapshots (Arrow IPC), outputs (Parquet)
    records     what a record of the log says, and how it is written
    history     the records that are there, checked; the newest snapshot among them
    committer   Executed → Logged → Committed, in a thread that no signal reaches
    journal     what an engine writes: epochs, calls, loads, snapshots; and what it deletes
    early       outputs of batches that have ended, written while the next one executes
    snapshots   an image of the state, a few rows after each epoch
    recovery    a core as some record left it
    directory   a state directory without its app: tables at any epoch that is kept, and a check of all files
    shares      a table in parts, each for another task to read
    verify      every checksum, and every link of the chain of records
    failpoints  named places where a test stops the process
    faults      disks that fail, for tests

ARCHITECTURE.md, "Durability", says why.
"""
