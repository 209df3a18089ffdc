"""Workloads with knobs: a dataclass of knobs each, whose `workload()` is an app, initial rows and batches of events.

| knob | |
|---|---|
| theta | Zipf skew of keys |
| aborts | share of transactions that abort |
| length | operations of a transaction |
| cost | of the user function, per write (morphspark.bench.work) |
| reads | rows that an operation reads |
| events | transactions of a batch: the punctuation interval |

Batches are pure functions of the knobs, the seed and the number of the first event.
"""
