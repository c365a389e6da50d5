"""The script that sets the published figures of the V schedules beside ours."""

from __future__ import annotations

import pytest

import reproduce_v_schedules as script


def test_no_figure_is_worse(capsys: pytest.CaptureFixture[str]) -> None:
    """The smaller sizes: every figure is as good as published, and the table says both."""
    assert script.main(["--fast"]) == 0
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert ["zb-v", "P4", "M8:", "makespan", "51", "51", "0"] in rows
    assert rows[-1] == ["all", "11", "figures", "agree"]


def test_a_worse_figure_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure that is worse than published is counted, and makes the exit code 1; so does another peak."""
    monkeypatch.setattr(script, "UNIT", {(4, 8): {"zb-v": (51, 47, 8), "v-min": (60, None, 5)}})
    monkeypatch.setattr(script, "PROFILED", {})
    assert script.main([]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 of 5 figures do not agree"
