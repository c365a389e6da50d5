"""The scripts that set published figures beside ours: DualPipe, OptPipe, V schedules, Zero Bubble."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import reproduce_dualpipe
import reproduce_optpipe
import reproduce_v_schedules
import reproduce_zero_bubble


def test_the_figures_agree(capsys: pytest.CaptureFixture[str]) -> None:
    """The smaller sizes: every figure is the published one, and the table says both."""
    assert reproduce_dualpipe.main(["--fast"]) == 0
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert ["dualpipe", "P8", "M16:", "makespan", "54", "54", "0"] in rows
    assert ["dualpipe", "P8", "M16,", "F&B", "2.5:", "bubble", "4.5", "4.5", "0"] in rows
    assert rows[-1] == ["all", "39", "figures", "agree"]


pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "scripts" / "reproduce_optpipe.py"


def test_a_cell() -> None:
    """P4 M8 at half of 1F1B's peak: 51 with all activations kept, 33 with both (times 4 here), and 33 is the bound."""
    row = reproduce_optpipe.measure(reproduce_optpipe.Cell(4, 8, False, Fraction(1, 2), Fraction(1, 2)), seconds=2)
    assert row.idle[0] == pytest.approx(100 * (4 * 51 - 8 * 12) / (4 * 51))
    assert row.idle[-1] == pytest.approx(100 * (4 * 33 - 8 * 12) / (4 * 51))
    assert row.proven
    assert row.reduction == pytest.approx(1 - 36 / 108)


def test_fast_markdown() -> None:
    """The command prints a Markdown table, a sentence about it, and exits 0."""
    command = [sys.executable, str(SCRIPT), "--fast", "--markdown", "--seconds", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("| P | M | stages |")
    assert len(lines) == 2 + 2 + 2
    assert lines[-1].startswith("idle time reduced by")


def test_no_figure_is_worse(capsys: pytest.CaptureFixture[str]) -> None:
    """The smaller sizes: every figure is as good as published, and the table says both."""
    assert reproduce_v_schedules.main(["--fast"]) == 0
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert ["zb-v", "P4", "M8:", "makespan", "51", "51", "0"] in rows
    assert rows[-1] == ["all", "11", "figures", "agree"]


def test_a_worse_figure_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure that is worse than published is counted, and makes the exit code 1; so does another peak."""
    monkeypatch.setattr(reproduce_v_schedules, "UNIT", {(4, 8): {"zb-v": (51, 47, 8), "v-min": (60, None, 5)}})
    monkeypatch.setattr(reproduce_v_schedules, "PROFILED", {})
    assert reproduce_v_schedules.main([]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 of 5 figures do not agree"


def test_every_figure_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    """The first rows of the paper's table: every figure agrees, in 80 columns."""
    assert reproduce_zero_bubble.main(["--fast"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[5].split() == ["1.5B", "P8", "M24", "ZB-2p:", "bubble_span", "0.0433", "0.04331", "0.00001"]
    assert lines[-1] == "all 10 figures agree"


def test_only_zb_auto_may_be_better() -> None:
    """The fixed schedules reproduce the printed figure, neither more nor less."""
    found = list(reproduce_zero_bubble.figures(fast=True))
    assert [figure.or_better for figure in found[:5]] == [False, False, False, True, True]
