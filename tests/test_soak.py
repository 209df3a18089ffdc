"""The soak in short: what the engine itself counts must not grow once windows are full. `make soak` looks at memory."""

import soak

import morphspark as ms

EPOCHS_TO_FILL, EPOCHS = 6, 18  # one is a fifth of what is retained


def test_versions_do_not_accumulate(tmp_path):
    sizes = []
    config = ms.Config(fsync=False, snapshot_every=4, retain_epochs=2)
    with soak.make_app().open(tmp_path, config=config) as engine:
        for number in range(EPOCHS):
            engine.process(soak.events(number * soak.EPOCH))
            sizes.append(engine.metrics.to_pandas()["state_bytes"].iloc[-1])
    filled, last = max(sizes[EPOCHS_TO_FILL : EPOCHS_TO_FILL + 6]), max(sizes[-6:])
    assert sizes[0] < filled / 2, "windows were full at once: this proves nothing"
    assert last <= filled * (1 + soak.GROWTH_MAX)
