"""The parameters beside the chart of a large terminal: typed live, one step of undo a line, bad values said."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from pipesched.explore.app.app import MainScreen
from tests.explore.conftest import app_of, state_of
from tests.explore.test_app import play, played, said, until

WIDE = (200, 50)


def values(screen: MainScreen) -> dict[str, str]:
    return {line.about: line.value for line in screen.parameters.lines}


async def typed(pilot: Pilot[None], text: str) -> None:
    await pilot.press(*text)
    await pilot.pause()


@pytest.mark.slow
@played(WIDE)
async def test_each_key_plans_anew_and_a_line_is_one_step(pilot: Pilot[None], screen: MainScreen) -> None:
    await pilot.press("right", ">", "e")
    await typed(pilot, "1")
    assert "M1 " in said(screen, "title")
    await typed(pilot, "2")
    assert "M12" in said(screen, "title")
    assert "your edits are dropped" in said(screen, "message")
    await pilot.press("down", "down", "down")
    await typed(pilot, "2")
    assert values(screen)["p2p"] == "2"
    await pilot.press("enter", "u")
    assert (values(screen)["p2p"], values(screen)["microbatches"]) == ("0", "12")
    await pilot.press("u")
    assert values(screen)["microbatches"] == "8"
    assert "edited" in said(screen, "title")
    await pilot.press("u")
    assert "edited" not in said(screen, "title")


@pytest.mark.slow
@played(WIDE)
async def test_a_cost_a_stage_and_a_bad_value(pilot: Pilot[None], screen: MainScreen) -> None:
    state = screen.state
    await pilot.press("e", "up", "up")
    assert screen.parameters.lines[-1].has_focus
    await pilot.press("up")
    await typed(pilot, "5,5")
    assert "forward" in said(screen, "message")
    await typed(pilot, ",5,5,5,5,5,9")
    assert state.board.amounts.makespan > 285
    made = state.board.amounts.makespan
    await typed(pilot, "x")
    assert "unknown unit" in said(screen, "message")
    assert state.board.amounts.makespan == made
    await pilot.press("escape")
    assert screen.chart.has_focus
    assert values(screen)["forward"] == "5,5,5,5,5,5,5,9"


@played(WIDE)
async def test_a_click_opens_a_line_and_a_smaller_terminal_closes_it(pilot: Pilot[None], screen: MainScreen) -> None:
    await pilot.click("#budget")
    assert screen.parameters.is_open
    await typed(pilot, "4")
    assert "over" in said(screen, "title")
    await pilot.resize_terminal(80, 24)
    await until(pilot, lambda: not screen.parameters.is_open)
    await pilot.press("right")
    assert screen.state.sheet.selected_name == "0F1"


def test_what_is_typed_for_the_algorithm_names_the_nearest() -> None:
    state = state_of()
    assert not state.plan_typed("algorithm", "interleavd")
    nearest = "interleaved, interleaved-zb, interleaved-overlap, grouped-interleaved"
    assert state.message == f"no algorithm 'interleavd': {nearest}"
    assert not state.plan_typed("algorithm", "qqq")
    assert state.message == "no algorithm 'qqq'; a lists them"
    assert state.plan_typed("algorithm", "1F1B")
    assert state.sheet.version.algorithm == "1f1b"


@pytest.mark.slow
@played(WIDE)
async def test_an_algorithm_of_one_stage_a_device_leaves_the_parameters(pilot: Pilot[None], screen: MainScreen) -> None:
    """It runs the stages fused, which is no parameter: what is typed next is about the stages as given."""
    await pilot.press("a", *"1f1b", "enter")
    assert "S4" in said(screen, "title")
    assert (values(screen)["stages"], values(screen)["forward"]) == ("8", "5")
    await pilot.press("e", "up", "up", "up")
    await typed(pilot, "6")
    await pilot.press("enter")
    assert values(screen)["forward"] == "6"


@pytest.mark.slow
@pytest.mark.parametrize(("rest", "title"), [(3600, "M8"), (0.01, "M12")])
def test_a_large_schedule_is_planned_when_the_keys_rest(
    monkeypatch: pytest.MonkeyPatch, rest: float, title: str
) -> None:
    monkeypatch.setattr("pipesched.explore.state.LIVE", 10)
    monkeypatch.setattr("pipesched.explore.app.app.REST", rest)

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press("e")
        await typed(pilot, "12")
        await until(pilot, lambda: title in said(screen, "title"))

    play(app_of(state_of()), script, WIDE)
