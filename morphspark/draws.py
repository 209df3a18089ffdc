"""What `ms.random()` gives: no generator with a state, but a function of where it is called.

    run     which execution: the app's seed, the epoch, and what runs in it (0: the epoch itself; n: the n-th call or
            advance before it)
    place   which call in it: the transaction's position in the order of its execution, the step of the call, and the
            iterations of the loops around it, the innermost first

Each number is mixed into those before it. csrc/program/draws.h says the same, and both have to keep saying it: a
command log that is executed again draws again.
"""

from __future__ import annotations

from collections.abc import Iterable

_MASK = 2**64 - 1
_ABORTED_BITS = 32


def _mix(word: int) -> int:
    """The finaliser of SplitMix64."""
    word = (word + 0x9E3779B97F4A7C15) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)


def _with(drawn: int, number: int) -> int:
    return _mix(drawn ^ _mix(number & _MASK))


def run_of(seed: int, epoch: int, part: int = 0) -> int:
    """All draws of one execution begin with this."""
    drawn = 0
    while True:  # a seed may be any whole number
        drawn, seed = _with(drawn, seed), seed >> 64
        if seed in (0, -1):
            return _with(_with(drawn, epoch), part)


def between_epochs(calls: int, aborted: int) -> int:
    """Which part of the next epoch a call is, or an advance: so many were committed, and tried in vain, before it."""
    return 1 + calls + (aborted << _ABORTED_BITS)


def uniform(run: int, position: int, step: int, iterations: Iterable[int] = ()) -> float:
    """One of the 2⁵³ multiples of 2⁻⁵³ in [0, 1)."""
    drawn = _with(_with(run, position), step)
    for iteration in iterations:
        drawn = _with(drawn, iteration)
    return (drawn >> 11) * 2.0**-53
