"""How sure an estimate is: runs of one's own, the source that they are like, and ratios of two configs."""

from __future__ import annotations

from math import exp, log
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched.config.estimate import judge_of, read_own_runs
from pipesched.errors import ConfigError

SETUP: dict[str, Any] = {
    "model": "llama-3-8b",
    "hardware": "h100-sxm",
    "parallel": {"gpus": 16, "tensor": 2, "pipeline": 2},
    "batch": {"sequence": 4096, "micro": 1, "global": 32},
}
TEXT = """\
model: llama-3-8b
hardware: h100-sxm
parallel: {gpus: 16, tensor: %d, pipeline: 2}
batch: {sequence: 4096, micro: 1, global: 32}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two configs in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    for tensor in (2, 4):
        Path(f"t{tensor}.yaml").write_text(TEXT % tensor)
    return tmp_path


def test_an_interval_is_about_what_is_expected() -> None:
    """`expected` is the cost model's time by what runs say, and the interval is as wide as `spread` says."""
    found = pipesched.estimate(**SETUP)
    assert found.trust is not None
    low, expected, high = found.trust.time
    assert high / expected == pytest.approx(expected / low) == pytest.approx(exp(1.2816 * found.trust.spread))
    rate = found.trust.tokens_per_second_per_gpu
    assert rate.expected * expected == pytest.approx(found.step.tokens_per_second_per_gpu * found.step.time)
    assert rate.low < rate.expected < rate.high
    assert pipesched.estimate(**SETUP, trust=False).trust is None


def test_own_runs_pull_and_narrow() -> None:
    """A run that took a tenth longer moves what is expected of its neighbour, and makes its interval narrower."""
    plain = pipesched.estimate("t2.yaml")
    other = pipesched.estimate("t4.yaml", trust=False).step.time
    pulled = pipesched.estimate("t2.yaml", measured=[("t4.yaml", 1.1 * other)])
    assert plain.trust is not None
    assert pulled.trust is not None
    assert pulled.trust.own == 1
    assert plain.trust.time.expected < pulled.trust.time.expected < 1.1 * pulled.step.time
    assert pulled.trust.spread < 0.8 * plain.trust.spread


def test_files_and_pairs_say_the_same() -> None:
    """A file names a config relative to itself or holds its keys; times may have units."""
    Path("sub").mkdir()
    rest = (TEXT % 4).replace("\n", "\n    ").rstrip()
    Path("sub/own.yaml").write_text(
        f"runs:\n  - config: ../t2.yaml\n    step: 1500\n    steps: 30\n  - {rest}\n    step: 1.25 s\n"
    )
    from_file = read_own_runs("sub/own.yaml")
    from_pairs = read_own_runs(
        [("t2.yaml", 1500), ({**SETUP, "parallel": {"gpus": 16, "tensor": 4, "pipeline": 2}}, 1250)]
    )
    assert [run.step for run in from_file] == [run.step for run in from_pairs] == [1500, 1250]
    assert [run.config.setup for run in from_file] == [run.config.setup for run in from_pairs]


def test_a_run_in_another_unit_names_itself() -> None:
    """Seconds for milliseconds are far off, which a note says with the number of the run."""
    time = pipesched.estimate("t2.yaml", trust=False).step.time
    assert judge_of(measured=[("t2.yaml", time)])[1] == ()
    _, notes = judge_of(measured=[("t2.yaml", time), ("t4.yaml", time / 1000)])
    assert len(notes) == 1
    assert notes[0].startswith("run 2 is ")
    assert notes[0].endswith("wrong unit or setting?")
    assert pipesched.estimate("t2.yaml", measured=[("t4.yaml", time / 1000)]).notes[-1].startswith("run 1 is ")


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("{step: 4000}", "run 1: config: is missing: the name of a file, or the keys of a config here"),
        ("{config: t2.yaml, step: 9, algorithm: zb-h1}", "run 1: algorithm: unknown key; known here are config, step"),
        ("{config: {model: llama-3-8b}, step: 9}", "run 1: config: must be the name of a file"),
        ("{config: t2.yaml, step: 9, steps: many}", "run 1: steps: must be a whole number of at least 1, not 'many'"),
        ("", "runs.yaml:1: `runs` is empty"),
    ],
)
def test_runs_of_a_file_that_cannot_be_read(run: str, message: str) -> None:
    """Beside `config` there are two keys, and what would count for nothing is refused."""
    Path("runs.yaml").write_text(f"runs: [{run}]\n")
    with pytest.raises(ConfigError) as caught:
        judge_of(measured="runs.yaml")
    assert message in caught.value.message


def test_an_empty_file() -> None:
    """It is told what a file of runs holds, not what a config does."""
    Path("runs.yaml").write_text("\n")
    with pytest.raises(ConfigError, match="must hold `runs:`, a list of configs"):
        judge_of(measured="runs.yaml")


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        ([("t2.yaml", None)], "run 1: step: is missing: the milliseconds of a step"),
        ([("t2.yaml", 1500), ("t4.yaml", "5 GB")], "run 2: step: must be a time, not '5 GB', which is memory"),
        ([("t2.yaml", 0)], "run 1: step: must be more than 0, not 0"),
        ([("none.yaml", 5)], "run 1: cannot read 'none.yaml'"),
        ([({**SETUP, "model": "llama-9"}, 5)], "run 1: model: unknown model 'llama-9'"),
        ([({**SETUP, "training": {"precision": "nvfp4"}}, 5)], "run 1: training.precision: h100-sxm has no products"),
        ([({"devices": 4}, 5)], "run 1: model: is missing"),
        (["t2.yaml"], "must be pairs of a config and the milliseconds of its step"),
        ("none.yaml", "cannot read 'none.yaml'"),
        ("t2.yaml", "unknown key"),
    ],
)
def test_runs_that_cannot_be_read(measured: Any, message: str) -> None:
    """One message about `measured`, with the number of the run."""
    with pytest.raises(ConfigError) as caught:
        judge_of(measured=measured)
    assert caught.value.key == "measured"
    assert message in caught.value.message


def test_the_effect_of_a_source_counts() -> None:
    """`like`, by the config or by the parameter, takes what a source's runs say; an unknown source is refused."""
    new, like = pipesched.estimate("t2.yaml"), pipesched.estimate("t2.yaml", like="torchtitan")
    configured = pipesched.estimate(TEXT % 2 + "trust: {like: torchtitan}\n")
    assert new.trust is not None
    assert like.trust is not None
    assert configured.trust == like.trust != new.trust
    assert (new.trust.like, like.trust.like) == (None, "torchtitan")
    with pytest.raises(ConfigError, match=r"unknown source of published runs 'torchtitn'; did you mean 'torchtitan'"):
        pipesched.estimate("t2.yaml", like="torchtitn")
    with pytest.raises(ConfigError, match=r"<text>:5: trust.like: unknown source"):
        pipesched.estimate(TEXT % 2 + "trust: {like: nobody}\n")


def test_ratios_are_of_one_model_on_as_many_gpus() -> None:
    """Ratios of two configs are each other's inverse, and what both share cancels."""
    one, other = pipesched.estimate("t2.yaml"), pipesched.estimate("t4.yaml")
    assert one.trust is not None
    assert other.trust is not None
    ratio, inverse = one.against(other), other.against(one)
    assert ratio.expected == pytest.approx(1 / inverse.expected)
    assert ratio.faster == pytest.approx(1 - inverse.faster)
    assert ratio.expected == pytest.approx(one.trust.time.expected / other.trust.time.expected)
    assert log(ratio.high / ratio.low) < 1.2816 * 2 * (one.trust.spread + other.trust.spread)
    smaller = pipesched.estimate("t2.yaml", parallel={"gpus": 8})
    with pytest.raises(ConfigError, match="ratios are of one model on as many GPUs"):
        one.against(smaller)
    with pytest.raises(ConfigError, match="must say how sure they are"):
        one.against(pipesched.estimate("t4.yaml", trust=False))
