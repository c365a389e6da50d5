"""`pipesched estimate` and `tune`: how sure they are, what is searched, printed and written."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched import Progress, Tuning
from pipesched.cli.progress import TuningBar, progress_of, progress_of_tuning, tuning_line
from pipesched.config.estimate import MIXED
from pipesched.config.values import Source
from pipesched.documents.tuning import tuning_document
from tests.cli.conftest import Cli
from tests.tuning.made import MADE, NOTHING, PRUNED, ROWS, SETUP

TEXT = """\
model: llama-3-8b
hardware: h100-sxm
parallel: {gpus: 16, tensor: %d, pipeline: 4}
batch: {sequence: 4096, micro: 1, global: 32}
"""


@pytest.fixture(autouse=True)
def configs(cli: Cli) -> None:
    """Two configs in the folder of the test."""
    for tensor in (2, 4):
        Path(f"t{tensor}.yaml").write_text(TEXT % tensor)


def test_the_table_says_how_sure(cli: Cli) -> None:
    """Intervals stand beside the step and its rate, then the nearest runs; all within 80 columns."""
    printed = cli("estimate", "t2.yaml", "--against", "t4.yaml", "--width", "80").stdout
    lines = printed.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert sum("expected" in line and "80 %" in line for line in lines) == 2
    at = lines.index("Based on published runs; the nearest:")
    assert " ".join(" ".join(lines[at + 1 :]).split()).count("tokens/s/GPU, estimated") == 3
    assert any(line.startswith("against t4.yaml: ") for line in lines)


def test_the_document_has_trust(cli: Cli) -> None:
    """JSON has intervals, evidence and ratios; --no-trust leaves them out."""
    content = json.loads(cli("estimate", "t2.yaml", "--against", "t4.yaml", "--json").stdout)
    trust = content["trust"]
    assert trust["level"] == 0.8
    assert trust["time"]["low"] < trust["time"]["expected"] < trust["time"]["high"]
    assert (trust["own"], trust["like"], len(trust["evidence"]["nearest"])) == (0, None, 3)
    assert trust["evidence"]["inside"] is (trust["evidence"]["outside"] == [])
    (against,) = content["against"]
    assert against["config"] == "t4.yaml"
    assert 0 <= against["faster"] <= 1
    plain = json.loads(cli("estimate", "t2.yaml", "--no-trust", "--json").stdout)
    assert plain.keys() == content.keys() - {"trust", "expected", "against"}


def test_precisions_are_compared_by_one_base(cli: Cli) -> None:
    """The ratio is that of what is expected of both; a note says that 16 bits alone are judged otherwise."""
    Path("fp8.yaml").write_text(TEXT % 2 + "training: {precision: fp8}\n")
    alone, beside, low = (
        json.loads(cli("estimate", *words, "--json").stdout)
        for words in (["t2.yaml"], ["t2.yaml", "--against", "fp8.yaml"], ["fp8.yaml", "--against", "t2.yaml"])
    )
    expected = {id(one): one["trust"]["time"]["expected"] for one in (alone, beside, low)}
    ratio = expected[id(beside)] / expected[id(low)]
    assert beside["against"][0]["ratio"]["expected"] == pytest.approx(ratio)
    assert low["against"][0]["ratio"]["expected"] == pytest.approx(1 / ratio)
    assert expected[id(alone)] != expected[id(beside)]
    assert (MIXED in beside["notes"], MIXED in low["notes"], MIXED in alone["notes"]) == (True, False, False)


def test_rates_are_also_those_of_the_expected_step(cli: Cli) -> None:
    """TFLOP/s, MFU and days go with the time that is expected, in the document and beside what is estimated."""
    content = json.loads(cli("estimate", "t2.yaml", "--json").stdout)
    step, expected = content["step"], content["expected"]
    longer = content["trust"]["time"]["expected"] / step["time"]
    assert longer != 1
    assert (expected["time"], expected["algorithm"]) == (pytest.approx(step["time"] * longer), step["algorithm"])
    rate = content["trust"]["tokens_per_second_per_gpu"]["expected"]
    assert expected["tokens_per_second_per_gpu"] == pytest.approx(rate)
    for key in ("model_tflops_per_gpu", "mfu", "hfu"):
        assert expected[key] == pytest.approx(step[key] / longer)
    printed = cli("estimate", "t2.yaml", "--width", "120").stdout
    assert f"{step['mfu']:.1%}  expected {expected['mfu']:.1%}; " in printed
    assert f"expected {1e12 / expected['tokens_per_second_per_gpu'] / 86400 / 16:,.1f} days; " in printed
    assert "expected" not in cli("estimate", "t2.yaml", "--no-trust").stdout


def test_compare_tells_schedules_apart(cli: Cli) -> None:
    """A fill-drain schedule is slower than 1f1b; the same order under another name cannot be told apart."""
    Path("c.yaml").write_text((TEXT % 1).replace("pipeline: 4", "pipeline: 8").replace("global: 32", "global: 16"))
    content = json.loads(cli("compare", "1f1b", "naive", "sequential", "-c", "c.yaml", "--json").stdout)
    first, naive, sequential = (row["faster"] for row in content["rows"])
    assert first is None
    assert 0 <= sequential < naive < 0.6
    printed = cli("compare", "1f1b", "sequential", "-c", "c.yaml", "--charts", "none").stdout
    assert "a step beside 1f1b's, with 90 %: slower: sequential" in printed
    assert "faster" not in cli("compare", "--json").stdout


def test_the_evidence_is_listed(cli: Cli) -> None:
    """All published runs, or those of a model, in a table and as rows."""
    every = json.loads(cli("list", "--evidence", "--json").stdout)["rows"]
    some = json.loads(cli("list", "--evidence", "llama-3.1-405b", "--json").stdout)["rows"]
    assert 0 < len(some) < len(every)
    assert all(row["tokens_per_second_per_gpu"] > 0 and row["url"] for row in every)
    printed = cli("list", "--evidence", "llama-3.1-405b", "--width", "80").stdout
    assert some[0]["run"].split("-")[0] in printed
    assert cli("list", "--evidence", "gpt2-xl").stdout == "no published run of gpt2-xl\n"


SPACE = """\
model: llama-3-8b
hardware: h100-sxm
parallel: {gpus: 8, tensor: [1, 2], pipeline: [2, 4], chunks: 1, context: 1}
batch: {sequence: 4096, global: 16, micro: 1}
"""


class Engine:
    """Stands in for the search: notes what it was asked for, and gives an answer that is made."""

    def __init__(self) -> None:
        self.answer = MADE
        self.asked: dict[str, Any] = {}

    def __call__(self, config: Source | None, algorithms: Any, **settings: Any) -> Tuning:
        self.asked = {"config": config, "algorithms": algorithms, **settings}
        return self.answer


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr("pipesched.tuning.tune.tune", made)
    return made


@pytest.mark.slow
def test_only_what_a_trainer_takes(cli: Cli) -> None:
    """--only tries what the trainer has and names what it leaves out; rows and a line below the table say more."""
    Path("my.yaml").write_text(SPACE)
    arguments = ("tune", "my.yaml", "1f1b", "zb-h1", "--top", "3", "--quiet")
    result = cli(*arguments, "--only", "megatron", "--json")
    assert (result.returncode, result.stderr) == (0, "pipesched: note: --only megatron leaves out zb-h1\n")
    rows = json.loads(result.stdout)["rows"]
    assert {row["algorithm"] for row in rows} == {"1f1b"}
    assert all("megatron" in row["runs_in"] for row in rows)
    table = cli("tune", "my.yaml", "zb-h1", "--pipeline", "4", "--quiet", "--width", "200").stdout
    assert (
        "runs in: torchtitan (schedule.csv), pytorch, primus; not megatron, deepspeed, megatron-bridge, maxtext: zb-h1"
        " takes code; not zero-bubble: Zero Bubble's fork of Megatron-LM cuts the layers evenly"
    ) in table


def test_words_and_options(cli: Cli, engine: Engine) -> None:
    """The config, the algorithms of words and --algos, the settings, and candidates on top of the config's own."""
    Path("my.yaml").write_text(SETUP)
    options = ("--top", "3", "--time-limit", "2.5", "--resume", "j.jsonl", "--jobs", "2", "--gpus", "64")
    searched = ("--tensor", "2,4,8", "--pipeline", "auto", "--micro", "1,2", "--recompute", "none,full,4")
    result = cli("tune", "1f1b", "my.yaml", "--algos", "zb-h1,solve", *options, *searched, "--mem-budget", "60")
    assert (result.returncode, result.stderr) == (0, "")
    asked = engine.asked
    assert asked["config"] == Source(SETUP, "my.yaml")
    assert asked["algorithms"] == ["1f1b", "zb-h1", "solve"]
    assert {name: asked[name] for name in ("top", "time_limit", "resume", "executor", "budget")} == {
        "top": 3, "time_limit": 2.5, "resume": "j.jsonl", "executor": "local:2", "budget": 60,
    }  # fmt: skip
    assert asked["parallel"] == {"gpus": 64, "tensor": [2, 4, 8], "pipeline": "auto"}
    assert asked["batch"] == {"micro": [1, 2]}
    assert asked["training"] == {"recompute": ["none", "full", {"full": 4}]}


def test_what_is_known_beside_published_runs(cli: Cli, engine: Engine) -> None:
    """A search beyond them, a source that one's own are like, one's own runs: parameters of the function."""
    assert (
        cli("tune", "--model", "llama-3-8b", "--beyond", "--like", "primus", "--measured", "own.yaml").returncode == 0
    )
    asked = {name: engine.asked.get(name) for name in ("beyond", "like", "measured")}
    assert asked == {"beyond": True, "like": "primus", "measured": "own.yaml"}


def test_without_options(cli: Cli, engine: Engine) -> None:
    """All algorithms, every core, and the defaults of the function for all else."""
    assert cli("tune", "--model", "llama-3-8b").returncode == 0
    asked = {name: value for name, value in engine.asked.items() if name not in ("stop", "listener")}
    assert asked == {"config": None, "algorithms": None, "executor": "local", "model": "llama-3-8b"}
    assert cli("tune", "-c", "-", stdin=SETUP).returncode == 0
    assert engine.asked["config"] == Source(SETUP, "<stdin>")


def test_what_it_prints(cli: Cli, engine: Engine) -> None:
    """The view, the plot, the document, or the stages of the best; in ASCII on request."""
    shown = cli("tune", "--ascii", "--width", "80")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith(
        "llama-3-8b on 8 h100-sxm\nbest of 410,000 points searched (of 470,000): 812 simulated"
    )
    assert shown.stdout.isascii()
    assert "\n1-2  2" in shown.stdout
    assert "\n2    2" in cli("tune", "--all-rows", "--width", "80").stdout
    assert "GB of the fullest device" in cli("tune", "--pareto").stdout
    assert json.loads(cli("tune", "--json").stdout) == json.loads(json.dumps(tuning_document(MADE)))
    assert engine.answer.estimate is not None
    stages = cli("tune", "--layout").stdout
    assert "# Megatron-LM" in stages
    assert engine.answer.estimate.layout in stages
    assert json.loads(cli("tune", "--layout", "--json").stdout)["format"] == "pipesched.layout"


def test_files(cli: Cli, engine: Engine) -> None:
    """-o writes the config of the best, or the document."""
    assert cli("tune", "-o", "best.yaml", "--quiet").returncode == 0
    assert Path("best.yaml").read_text("utf-8") == SETUP
    result = cli("tune", "-o", "all.json", "--json")
    assert Path("all.json").read_text("utf-8") == result.stdout


@pytest.mark.parametrize("args", [(), ("--pareto",), ("--layout",)])
def test_nothing_fits(cli: Cli, engine: Engine, args: tuple[str, ...]) -> None:
    """Exit code 1 with what is nearest on stdout; a config is not written, the document is."""
    engine.answer = NOTHING
    result = cli("tune", *args, "-o", "best.yaml")
    assert result.returncode == 1
    assert "What misses its memory by least:" in result.stdout
    assert result.stderr == "pipesched: best.yaml is not written: nothing fits\n"
    assert not Path("best.yaml").exists()
    written = cli("tune", "--json", "-o", "all.json")
    assert (written.returncode, written.stderr) == (1, "")
    assert json.loads(written.stdout) == json.loads(Path("all.json").read_text("utf-8"))
    assert json.loads(written.stdout)["rows"] == []


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("found", [True, False])
def test_ctrl_c(cli: Cli, monkeypatch: pytest.MonkeyPatch, found: bool) -> None:
    """The first Ctrl-C gives the best so far, with exit code 0; where there is none, nothing, and 130."""

    def interrupted(*_: object, stop: Any, **settings: object) -> Tuning:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.is_set()
        return replace(MADE, left=99) if found else replace(NOTHING, left=99)

    monkeypatch.setattr("pipesched.tuning.tune.tune", interrupted)
    result = cli("tune", "--width", "200")
    if found:
        assert (result.returncode, result.stderr) == (0, "")
        assert "99 when the search was stopped" in result.stdout
    else:
        assert (result.returncode, result.stdout, result.stderr) == (130, "", "pipesched: interrupted\n")


PROGRESS = Progress(812, 188, ROWS[0], PRUNED, "search")


def test_lines_of_progress() -> None:
    """Without a terminal a line says the step, the points and the best, if there is one."""
    assert tuning_line(None, 3) == "    3 s  search"
    assert tuning_line(PROGRESS, 11) == (
        "   11 s  search  812 simulated, 469,188 dropped, 188 left"
        "  best 10,412.3 tokens/s/GPU: tensor 2, pipeline 4, zb-h1"
    )
    bare = PROGRESS._replace(best=None, step="")
    assert tuning_line(bare, 22) == "   22 s  search  812 simulated, 469,188 dropped, 188 left"


def test_no_progress() -> None:
    """--quiet: nobody listens."""
    with progress_of_tuning() as listener:
        assert listener is None


def test_the_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What is done since the search began, of what there is to do; the best so far in a line of its own."""
    bar = TuningBar()
    bar.hear(PROGRESS._replace(simulated=0, left=1000, best=None))
    assert (bar.bar.tasks[0].completed, bar.bar.tasks[0].total) == (0, 1000)
    bar.hear(PROGRESS)
    assert (bar.bar.tasks[0].completed, bar.bar.tasks[0].total) == (812, 1000)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    with progress_of("tune"), progress_of_tuning() as listener:
        assert listener is not None
        listener(PROGRESS)
    shown = capsys.readouterr().err
    assert "812 simulated, 469,188 dropped, 188 left" in shown
    assert "best 10,412.3 tokens/s/GPU: tensor 2, pipeline 4, zb-h1" in shown


def test_a_small_space(cli: Cli) -> None:
    """The real search: every point is counted once, the best comes first, and its file says the same again."""
    Path("space.yaml").write_text(SPACE)
    result = cli("tune", "space.yaml", "1f1b", "--json", "-o", "best.yaml", "--jobs", "1", "--quiet")
    assert (result.returncode, result.stderr) == (0, "")
    content = json.loads(result.stdout)
    assert content["space"] == 4
    assert content["space"] == content["simulated"] + sum(content["pruned"].values()) + content["left"]
    first = content["rows"][0]
    step = first["step"]
    assert step["tokens_per_second_per_gpu"] == max(row["step"]["tokens_per_second_per_gpu"] for row in content["rows"])
    again = pipesched.estimate("best.yaml")
    assert again.step._asdict() == step
    assert again.layout == first["layout"]
