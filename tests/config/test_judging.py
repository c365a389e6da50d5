"""How sure an estimate is: runs of one's own, the source that they are like, and ratios of two configs."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError
from pipesched.config.estimate import judge_of, read_own_runs

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


def test_the_effect_of_a_source_counts() -> None:
    """`like`, by the config or by the parameter, takes what a source's runs say."""
    new, like = pipesched.estimate("t2.yaml"), pipesched.estimate("t2.yaml", like="torchtitan")
    configured = pipesched.estimate(TEXT % 2 + "trust: {like: torchtitan}\n")
    assert new.trust is not None
    assert like.trust is not None
    assert configured.trust == like.trust != new.trust
    assert (new.trust.like, like.trust.like) == (None, "torchtitan")


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
