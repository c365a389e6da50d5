"""The script of the headline experiment: a few of its cells, end to end."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import reproduce_optpipe as script

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "scripts" / "reproduce_optpipe.py"


def test_the_grid_is_the_whole_experiment() -> None:
    """P 4 and 8; M 8, 16, 32; equal and uneven stages; three ratios; four budgets."""
    cells = list(script.grid(fast=False))
    assert len(cells) == len(set(cells)) == 2 * 3 * 2 * 3 * 4


def test_a_cell() -> None:
    """P4 M8 at half of 1F1B's peak: 51 with all activations kept, 33 with both (times 4 here), and 33 is the bound."""
    row = script.measure(script.Cell(4, 8, False, Fraction(1, 2), Fraction(1, 2)), seconds=2)
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
