"""Integer keys by Zipf's law, for workloads where key lookup is not the subject."""

from __future__ import annotations

import functools

import numpy as np

from morphspark.apps.streaming_ledger import zipf_cumulative


def zipf_keys(random: np.random.Generator, shape: int | tuple[int, ...], keys: int, theta: float) -> np.ndarray:
    """Keys from 0 to `keys - 1`; the popular ones are spread over the table."""
    cumulative, scattered = _law(keys, theta)
    return scattered[np.searchsorted(cumulative, random.random(shape), side="right")]


@functools.lru_cache(maxsize=16)
def _law(keys: int, theta: float) -> tuple[np.ndarray, np.ndarray]:
    return zipf_cumulative(keys, theta), np.random.default_rng(keys).permutation(keys)
