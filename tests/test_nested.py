"""Several strategies in one batch: what Config takes, and what comes of it. Results are checked by the properties."""

import pyarrow as pa
import pytest

import morphspark as ms

CHAINS, STRATA = "ns-explore/c-schedule/l-abort", "s-explore-bfs/v-schedule/e-abort"


def events(count: int = 200) -> pa.Table:
    return pa.table(
        {
            "ts": list(range(count)),
            "kind": ["deposit" if i % 3 else "transfer" for i in range(count)],
            "account": [f"a{i % 7}" for i in range(count)],
            "to_account": [f"a{i % 5}" for i in range(count)],
            "asset": ["x"] * count,
            "amount": [i % 11 for i in range(count)],
            "quantity": [1] * count,
        }
    )


@pytest.mark.parametrize(
    "strategy",
    [{"deposit": CHAINS, "transfer": STRATA}, {"transfer": CHAINS, "*": STRATA}, {"*": CHAINS}],
)
def test_a_strategy_for_each_transaction(ledger, strategy):
    with ledger.open(config=ms.Config(strategy="serial")) as serial:
        expected = serial.process(events())
        state = serial.table("accounts").to_pandas().sort_values("key", ignore_index=True)
    with ledger.open(config=ms.Config(strategy=strategy, threads=3)) as engine:
        assert engine.process(events()).equals(expected)
        assert engine.table("accounts").to_pandas().sort_values("key", ignore_index=True).equals(state)
        assert engine.metrics[-1]["strategy"] == "nested"
        assert engine.metrics[-1]["batches"][0]["units"] > 0
        explained = str(engine.explain(events()))
        assert "decision       nested: configured: " in explained and CHAINS in explained


def test_from_a_file_and_from_spark(tmp_path):
    file = tmp_path / "nested.toml"
    file.write_text(f'[engine.strategy]\ntransfer = "{CHAINS}"\n"*" = "{STRATA}"\n')
    wanted = {"transfer": CHAINS, "*": STRATA}
    assert ms.Config.from_file(file).strategy == wanted
    settings = {f"strategy.{name}": value for name, value in wanted.items()}
    assert ms.Config.from_mapping(settings, "Spark conf").strategy == wanted
    with pytest.raises(ms.ConfigError, match="strategy and strategy.transfer are both set"):
        ms.Config.from_mapping({"strategy": "serial", **settings}, "Spark conf")


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ({"transfer": CHAINS, "deposits": STRATA}, "strategy of 'deposits': there is no such transaction"),
        ({"transfer": CHAINS}, "transaction 'deposit' has none; name it, or give '\\*' for all others"),
        ({"transfer": "serial", "*": CHAINS}, "strategy of 'transfer': 'serial' can't be one of several in a batch"),
        ({}, "transaction 'deposit' has none"),
    ],
)
def test_mistakes(ledger, strategy, message):
    with pytest.raises(ms.ConfigError, match=message):
        ledger.open(config=ms.Config(strategy=strategy))
