"""`morphspark state ls|show|export|verify PATH`."""

import shutil

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import morphspark as ms
from morphspark.cli import main
from morphspark.durable.directory import StateDirectory


@pytest.fixture
def path(ledger, tmp_path):
    """A load, four epochs, a snapshot after the third, a call."""
    path = tmp_path / "state"
    with ledger.open(path, ms.Config(retain_epochs=9)) as engine:
        engine.load("accounts", pa.table({"key": ["z"], "balance": [5]}))
        for epoch in range(4):
            engine.process(deposits(epoch))
            if epoch == 2:
                engine.snapshot()
        engine.call("transfer", account="a0", to_account="z", amount=3)
    return path


def deposits(epoch):
    names = [f"a{n}" for n in range(10)]
    numbers = pa.array([epoch * 10 + n for n in range(10)])
    columns = {
        "ts": numbers,
        "kind": ["deposit"] * 10,
        "account": names,
        "to_account": pa.array([None] * 10, pa.string()),
    }
    return pa.table({**columns, "asset": ["x"] * 10, "amount": numbers, "quantity": [1] * 10})


def run(capsys, *arguments):
    code = main(["state", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_ls_lists_epochs_snapshots_sizes_and_binding(path, capsys):
    code, out, err = run(capsys, "ls", path)
    assert (code, err) == (0, "")
    assert f"{path}\n  app       ledger, program " in out
    assert "query     none has used it yet" in out
    assert "epochs    3 is the last; 0 to 3 can be read" in out
    assert "table     accounts: key string → balance int64" in out
    kinds = [line.split()[1] for line in out.splitlines() if line[:6].strip().isdigit()]
    assert kinds == ["bind", "load", "epoch", "epoch", "epoch", "snapshot", "epoch", "call"]
    assert "1 rows of accounts" in out and "epoch 2 (delta): 10 committed" in out
    assert "12 rows as record 4 left them" in out and "transfer: 2 rows changed" in out


def test_show_prints_rows_now_and_then(path, capsys):
    code, out, _ = run(capsys, "show", path)
    assert code == 0 and "accounts: 11 rows" in out and "assets: 1 rows" in out
    assert [line.split() for line in out.splitlines()[2:4]] == [["a0", "57"], ["a1", "64"]]
    code, out, _ = run(capsys, "show", path, "--table", "accounts", "--epoch", "0", "--rows", "2")
    assert out.splitlines()[1:] == [
        "key  balance",
        " a0        0",
        " a1        1",
        "… 9 more; --rows says how many are shown",
    ]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_export_writes_files_and_overwrites_none(path, tmp_path, capsys, kind):
    code, out, _ = run(capsys, "export", path, tmp_path / "out", "--format", kind)
    assert code == 0 and f"{tmp_path / 'out' / 'accounts'}.{kind}  11 rows" in out
    read = pq.read_table if kind == "parquet" else pyarrow.csv.read_csv
    found = read(tmp_path / "out" / f"accounts.{kind}")
    assert found.to_pydict()["balance"][-1] == 8
    wanted = StateDirectory(path).table("accounts").sort_by("key")
    assert found.to_pydict() == wanted.to_pydict()
    code, _, err = run(capsys, "export", path, tmp_path / "out", "--format", kind)
    assert code == 2 and "is there already; delete it, or name another folder" in err
    assert {one.name for one in (tmp_path / "out").iterdir()} == {f"accounts.{kind}", f"assets.{kind}"}


def test_verify_of_a_directory_that_is_right(path, capsys):
    code, out, err = run(capsys, "verify", path)
    assert (code, err) == (0, "")
    assert out == f"{path}: 8 records and their 11 files are as they were written\n"


def damage(file, how):
    data = bytearray(file.read_bytes())
    if how == "missing":
        file.unlink()
    elif how == "cut":
        file.write_bytes(data[:-1])
    else:
        data[len(data) // 2] ^= 1
        file.write_bytes(data)


@pytest.mark.parametrize("how", ["missing", "cut", "flipped"])
def test_verify_names_every_file_that_is_wrong(path, tmp_path, capsys, how):
    """Each file alone, but for the newest record: a log that ends before it is a log, too."""
    last = max((path / "log").iterdir())
    outputs = {one.body.output.name for one in StateDirectory(path).history.epochs()[:-1]}
    for file in sorted(one for one in path.rglob("*") if one.is_file()):
        name = str(file.relative_to(path))
        if how == "missing" and (file == last or name in outputs):  # so does retention leave it
            continue
        copy = tmp_path / "copy"
        shutil.copytree(path, copy)
        damage(copy / name, how)
        code, out, err = run(capsys, "verify", copy)
        # In front of a gap everything is left over from a deletion, if a snapshot is behind it.
        cut_off = how == "missing" and name.startswith("log/") and int(file.stem) <= 4
        if not cut_off:
            assert code == 1 and str(copy / name) in err, (name, out, err)
        shutil.rmtree(copy)


def test_verify_goes_on_behind_what_is_damaged(path, capsys):
    state = StateDirectory(path)
    files = [
        state.records[1].file,
        state.records[3].body.log.name,
        state.records[6].file,
        state.records[7].body.rows.name,
    ]
    for name in files:
        damage(path / name, "flipped")
    code, out, err = run(capsys, "verify", path)
    assert code == 1 and out == f"4 problems in {path}\n"
    for name in files:
        assert name in err


def test_verify_sees_a_record_of_another_directory(path, ledger, tmp_path, capsys):
    with ledger.open(tmp_path / "other") as engine:
        engine.load("accounts", pa.table({"key": ["z"], "balance": [7]}))
    shutil.copy(tmp_path / "other" / "log" / "000000000001.json", path / "log" / "000000000001.json")
    code, _, err = run(capsys, "verify", path)
    assert code == 1 and "000000000001.json belongs to another state directory" in err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["ls", "nowhere"], "nowhere holds no state of morphspark"),
        (["verify", "nowhere"], "nowhere holds no state of morphspark"),
        (["show", "state", "--table", "acounts"], "has no table 'acounts' then (tables: accounts, assets)"),
        (["show", "state", "--epoch", "7"], "the state after epoch 7 is not there: epochs 0 to 3 are kept"),
        (["ls", "hdfs://somewhere/state"], "hdfs can neither link files nor put an object only if it is absent"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(path.parent)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "") and message in err and len(err.splitlines()) == 1
