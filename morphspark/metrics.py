"""What happened in each epoch: counts, the decision, and where the time went."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any

EPOCHS_KEPT = 10_000


class Metrics:
    """One record (a dict) per epoch, the newest last; only the last ten thousand are kept."""

    def __init__(self) -> None:
        self._records: deque[dict[str, Any]] = deque(maxlen=EPOCHS_KEPT)

    def add(self, record: dict[str, Any]) -> None:
        self._records.append(record)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._records)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._records[index]

    def to_pandas(self) -> Any:
        import pandas as pd

        return pd.DataFrame(list(self._records))

    def __repr__(self) -> str:
        return f"<morphspark metrics of {len(self)} epochs>"


def ms_since(started: float) -> float:
    """Milliseconds since a reading of `time.perf_counter()`."""
    return (time.perf_counter() - started) * 1e3
