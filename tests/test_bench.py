"""Benchmarks: what the suites print, what their workloads are, and how they measure. Speed itself is not tested."""

import json
import sys

import numpy as np
import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.apps import streaming_ledger
from morphspark.bench import BENCHES, chart, lineup, recovery, run
from morphspark.bench.contest import EVEN, OneEngine, Outcome, Sample, check_same, contest
from morphspark.bench.lineup import Entrant
from morphspark.bench.progress_bar import ProgressBar
from morphspark.bench.report import Report
from morphspark.bench.scale import FULL, QUICK, TINY, Turns
from morphspark.bench.work import FREE
from morphspark.bench.workloads import ledger
from morphspark.bench.workloads.checked_ledger import CheckedLedger, by_builtin
from morphspark.bench.workloads.grep_lists import GrepLists
from morphspark.bench.workloads.grep_nondet import GrepNondet
from morphspark.bench.workloads.grep_sum import GrepSum
from morphspark.bench.workloads.grid import grid
from morphspark.bench.workloads.ledger import Ledger
from morphspark.bench.workloads.phases import PHASES, Phases
from morphspark.bench.workloads.toll_processing import TollProcessing
from morphspark.cli import main

SUITES = {
    "sl-schemes": ["auto_vs_serial", "v_vs_serial"],
    "dynamic": [*(f"auto_vs_best_scheme_{phase}" for phase in (1, 2, 3, 4)), "vs_tstream_abort_phase"],
    "explore": [],
    "granularity": [],
    "abort": [],
    "nested": ["nested_vs_plain"],
    "window": [
        *("size_ratio", "trigger_ratio", "size_ratio_of_trigger", "trigger_ratio_of_trigger"),
        *("vs_recompute", "vs_recompute_of_trigger", "vs_recompute_100_keys"),
    ],
    "nondet": ["with_among", "without"],
    "regret": ["mean", "share_090", "min", "mean_of_totals", "share_090_of_totals", "min_of_totals"],
    "breakdown": ["plan_mops_per_core", "plan_mops_per_core_of_transactions"],
    "memory": ["peak_vs_serial", "graph_bytes_per_operation", "bytes_per_version"],
    "udf": [
        "numba_vs_builtin",
        "python_vs_builtin",
        "model_one_row_us",
        "vector_vs_per_event",
        "auto_vs_per_event",
    ],
    "scaling": ["parallel_efficiency", "speedup_of_best", "speedup_of_independent_threads", "speedup_of_graph"],
}
SMALL = {"events": 300, "keys": 50}
CHECKED = CheckedLedger(by_builtin, **SMALL)


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_ends_with_one_json_line(name, capsys, tmp_path):
    report = run(name, TINY)
    report.show()
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines and not any(line.startswith("{") for line in lines)
    found = json.loads(last)
    assert set(found) == {"bench", "machine", "rows", "bars"} and found["bench"] == name
    assert found["rows"] and all(row["name"] for row in found["rows"])
    assert [bar["name"] for bar in found["bars"]] == SUITES[name]
    for bar in found["bars"]:
        assert set(bar) == {"name", "value", "bar", "ok"}
        assert bar["ok"] is None if bar["bar"] is None else bar["ok"] in (True, False)
    report.plot(str(tmp_path / "plot.png"))
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_all_suites_are_tested():
    assert {*SUITES, "engine", "sink", "recovery"} == set(BENCHES)  # those three measure Spark or a compiler


def test_recovery_is_measured_in_a_process_of_its_own():
    report = Report("recovery")
    recovery.measure_recovery(report, rows=2000, epochs=3, repeats=2)
    assert [row["name"] for row in report.rows] == ["recovery, delta", "recovery, command"]
    names = ["recovery_seconds", "recovery_seconds_command", "log_bytes_per_event_delta", "log_bytes_per_event_command"]
    assert [bar["name"] for bar in report.bars] == names and all(bar["value"] > 0 for bar in report.bars)


def test_epochs_are_told_apart_by_the_snapshot_under_way():
    report = Report("recovery")
    recovery.measure_snapshots(report, rows=2000, fewest=4, every=4)
    assert [row["name"] for row in report.rows] == ["epochs during a snapshot", "epochs between snapshots"]
    assert all(row["repeats"] >= 4 for row in report.rows)
    assert [bar["name"] for bar in report.bars] == ["snapshot_p95_ratio"]


# ------------------------------------------------------------------------------------------- command line


def test_the_list(capsys):
    assert main(["bench", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(BENCHES)


@pytest.mark.parametrize("arguments", [["bench"], ["bench", "fastest"]])
def test_without_a_name_that_exists_the_names_are_told(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert all(name in err for name in BENCHES)


def test_a_plot_that_can_not_be_drawn_fails_before_the_run(tmp_path, capsys, monkeypatch):
    assert main(["bench", "abort", "--plot", str(tmp_path / "plot.xls")]) == 2
    assert "expected a name that ends with .png" in capsys.readouterr().err
    assert main(["bench", "abort", "--plot", str(tmp_path / "no" / "plot.png")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["bench", "abort", "--plot", str(tmp_path / "plot.png")]) == 2
    assert "pip install 'morphspark[plot]'" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------- workloads


@pytest.mark.parametrize(
    "knobs",
    [
        Ledger(**SMALL),
        GrepSum(**SMALL),
        GrepLists(**SMALL),
        GrepNondet(**SMALL, among=True),
        TollProcessing(events=300),
        CHECKED,
    ],
)
def test_batches_are_functions_of_knobs_and_number(knobs):
    workload = knobs.workload()
    assert workload.batch(3).equals(knobs.workload().batch(3))
    assert not workload.batch(3).drop("ts").equals(workload.batch(4).drop("ts"))
    stamps = [workload.batch(number).column("ts").cast(pa.int64()).to_numpy() for number in (0, 1)]
    assert np.all(np.diff(np.concatenate(stamps)) == 1)


def test_without_a_cost_the_ledger_is_the_streaming_ledger():
    assert ledger.build(FREE).program.to_json() == streaming_ledger.build().program.to_json()


@pytest.mark.parametrize(
    "knobs, share",
    [
        (Ledger(4_000, 500, aborts=0.3), 0.3),
        (GrepSum(4_000, 500, aborts=0.3, length=3), 0.3),
        (GrepLists(4_000, 500), 0.0),
        (GrepNondet(4_000, 500, aborts=0.3), 0.3),
        (GrepNondet(4_000, 500, among=True, aborts=0.3), 0.3),
        (TollProcessing(4_000, busy_aborts=0.5, quiet_aborts=0.1), 0.3),
    ],
)
def test_the_share_of_aborts_is_as_asked(knobs, share):
    workload = knobs.workload()
    with workload.open(ms.Config()) as engine:
        engine.process(workload.batch(0))
        assert engine.metrics[-1]["aborted"] / 4_000 == pytest.approx(share, abs=0.03)


def test_chains_without_cycles_depend_in_one_direction():
    batch = GrepSum(events=500, keys=50, reads=3, cyclic=False).workload().batch(0)
    written, *read = (batch.column(f"key_0_{index}").to_numpy() for index in range(3))
    assert all(np.all(written >= keys) for keys in read)


def test_the_grid_of_regret():
    full = [entry.label for entry in grid(FULL)]
    assert len(set(full)) == 60
    quick = [entry.label for entry in QUICK.first(grid(QUICK), quick=12)]
    assert quick == full[:12]
    knobs = ("θ 0.0 ", "θ 1.0 ", "a 0.0 ", "a 0.9 ", "C 0 ", "C 100 ", "smooth", "branchy", "hot")
    for knob in (*knobs, "T 100", "T 81920", " cyclic", "acyclic", "l 1 r", "l 10 r 10", "lists", "TP"):
        assert any(knob in label for label in quick), knob


def test_each_phase_goes_from_a_value_to_a_value():
    phases = Phases(Ledger(**SMALL), warm_up=2, batches=3)
    assert len(phases) == 2 + 3 * len(PHASES)
    assert [phases.phase(number) for number in range(len(phases))] == [0] * 5 + [1] * 3 + [2] * 3 + [3] * 3
    assert [phases.knobs(number).theta for number in (5, 6, 7)] == [0.0, 0.495, 0.99]
    assert [phases.knobs(number).transfers for number in (8, 9, 10)] == [0.0, 0.5, 1.0]
    assert [phases.knobs(number).aborts for number in (11, 13)] == [0.0, 0.6]
    ends = [phases.workload().batch(number).column("ts") for number in (4, 5)]
    assert ends[1][0].value == ends[0][-1].value + 1


# ------------------------------------------------------------------------------------------- measuring


def measured(**seconds):
    samples = {name: [Sample(one, one, {}) for one in values] for name, values in seconds.items()}
    return Outcome(events=100, samples=samples)


def test_the_best_is_picked_on_odd_turns_and_compared_on_even_ones():
    outcome = measured(auto=[9, 4, 9, 4], lucky=[1, 8, 1, 8], steady=[2, 2, 2, 2])
    assert outcome.best(["lucky", "steady", "absent"]) == "lucky"
    assert outcome.speedup("auto", "lucky", EVEN) == 2
    assert outcome.speedup("steady", "auto") == 3.25  # the median of 4.5, 2, 4.5, 2


def test_of_totals_a_slow_turn_counts_unless_all_were_slow_in_it():
    outcome = measured(auto=[1, 1, 1, 1, 5, 40], best=[1, 1, 1, 1, 1, 30])
    assert outcome.speedup("auto", "best") == 1  # no median is moved by two turns
    assert outcome.speedup_of_totals("auto", "best") == 5 / 9  # the last turn is left out, the one before it is not
    assert outcome.speedup_of_totals("best", "auto") == 9 / 5
    assert outcome.speedup_of_totals("auto", "best", EVEN) == 1


def test_contestants_run_the_same_batches_and_the_slow_ones_are_left_out(monkeypatch):
    seen = {}

    def process(self, batch):
        seen.setdefault(self.name, []).append(batch.column("ts")[0].as_py())
        self.result = self.engine.process(batch)
        disturbed = self.name == "disturbed" and len(seen[self.name]) < 3
        execute_s = 3.0 if self.name == "slow" or disturbed else 1.0
        return Sample(execute_s, execute_s, self.engine.metrics[-1])

    monkeypatch.setattr(OneEngine, "process", process)
    entrants = [Entrant(name, "serial") for name in ("one", "other", "slow", "disturbed")] + [Entrant("auto", "auto")]
    workload = GrepSum(**SMALL).workload()
    turns = Turns(seconds=0, fewest=3, most=9)
    outcome = contest(workload, entrants, TINY, turns, ProgressBar(1), drop_beyond=2.0)
    assert outcome.dropped == ["slow"] and len(seen["slow"]) == 4  # the first batch, three trials
    assert {name: len(samples) for name, samples in outcome.samples.items()} == dict.fromkeys(
        ("one", "other", "disturbed", "auto"), 4
    )
    assert seen["one"] == seen["other"]
    assert (
        seen["one"][0] == seen["auto"][0] and seen["one"][2:] == seen["auto"][2:]
    )  # a trial, or a batch to learn from


def test_contestants_that_disagree_are_no_comparison():
    workload = GrepSum(**SMALL).workload()
    one, other = OneEngine(Entrant("one", "serial"), workload), OneEngine(Entrant("other", "serial"), workload)
    one.process(workload.batch(0))
    other.process(workload.batch(1))
    with pytest.raises(AssertionError, match="other disagrees with one"):
        check_same(one, other)


def test_turns_end_after_the_seconds_but_within_bounds():
    turns = Turns(seconds=10, fewest=4, most=8)
    for done, seconds, enough in [(3, 99, False), (4, 9, False), (4, 10, True), (8, 1, True)]:
        assert (turns.done(done, seconds) >= 1) is enough


def test_points_of_the_scheduling_space():
    points = lineup.space(["s-explore-bfs", "ns-explore"], ["t-schedule", "v-schedule"], ["e-abort"])
    assert points == [
        "s-explore-bfs/t-schedule/e-abort",
        "s-explore-bfs/v-schedule/e-abort",
        "ns-explore/t-schedule/e-abort",
    ]
    assert [one.name for one in lineup.entrants(["serial", "auto", "serial"])] == ["serial", "auto"]


def test_nolock_is_for_benchmarks_only():
    with pytest.raises(ms.ConfigError, match="expected one of auto, serial"):
        ms.Config(strategy="nolock")
    workload = TollProcessing(events=512).workload()
    with lineup.Entrant("nolock", lineup.NOLOCK).open(workload) as engine:
        assert len(engine.process(workload.batch(0))) == 512
        assert engine.metrics[-1]["strategy"] == "nolock"


def test_what_is_not_measured_is_not_met(capsys):
    report = Report("none")
    report.bar("speed", None, 2)
    report.bar("size", None, None)
    report.bar("fine", 3.0, 2)
    assert [bar["ok"] for bar in report.bars] == [False, None, True]
    report.show()
    assert capsys.readouterr().out.count("not measured") == 2


def test_a_chart_leaves_gaps_where_nothing_was_measured(tmp_path):
    lines = chart.Lines("gaps", [1, 2], {"all": [1.0, 2.0], "some": [None, 1.0]}, "threads", marks={"begin": 1})
    chart.save([lines, chart.Bars("bars", {"a": {"x": 1.0}, "b": {"y": 2.0}}, "ms")], "two", str(tmp_path / "two.svg"))
    assert (tmp_path / "two.svg").read_text().startswith("<?xml")


class Terminal:
    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_a_progress_bar_is_one_line_that_is_cleared():
    terminal = Terminal()
    with ProgressBar(2, terminal) as bar:
        bar.step("first")
        bar.step("second")
        bar.within(0.5)
    assert "\n" not in terminal.text and terminal.text.endswith("\r\x1b[K\r")
    assert "[............]" not in terminal.text and " 75 %" in terminal.text and "second" in terminal.text
