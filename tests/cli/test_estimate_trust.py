"""`estimate`, `compare` and `list` say how sure they are."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pipesched.config.estimate import MIXED

Cli = Callable[..., subprocess.CompletedProcess[str]]
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


def test_what_lies_outside_is_told(cli: Cli) -> None:
    """A ring that nobody has published is named, with what was measured."""
    printed = cli("estimate", "t2.yaml", "--context", "8", "--global-batch", "64", "--gpus", "64", "--width", "100")
    assert "Nobody has published a run with" in printed.stdout
    assert "context 8; measured: " in printed.stdout


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
