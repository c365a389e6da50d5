"""Every key and every mouse action of the app, pressed in a terminal of 80x24 that Textual pretends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Event

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input, Static

from pipesched import check, make_problem, read, run
from pipesched.explore.app.app import ExploreApp, MainScreen, Work
from pipesched.explore.app.dialogs import Confirm, Parameters, Pick, Read
from pipesched.explore.board import Planned, Tell
from pipesched.explore.drawing import BoardScreen, Viewport, draw
from pipesched.explore.pipeline_board import PipelinePlanner
from pipesched.explore.state import KEYS, State
from tests.explore.conftest import app_of, maker, outcome_of, pool_of, ran, state_at, state_of

Script = Callable[[Pilot[None], MainScreen], Awaitable[None]]


def play(app: ExploreApp, script: Script, size: tuple[int, int] = (80, 24)) -> ExploreApp:
    """Run the app, and in it a script."""

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await script(pilot, app.main_screen)

    ran(run())
    return app


def played(
    size: tuple[int, int] = (80, 24), make: Callable[..., State] = state_of, **look: bool
) -> Callable[[Script], Callable[[], None]]:
    """A test that plays the script in the app around a state."""

    def test_of(script: Script) -> Callable[[], None]:
        def test() -> None:
            play(app_of(make(), None, **look), script, size)

        return test

    return test_of


async def settled(pilot: Pilot[None], screen: MainScreen) -> None:
    """Wait until no search runs."""
    await until(pilot, lambda: screen.work is None)


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    for _ in range(3000):
        await pilot.pause(0.02)
        if holds():
            return
    raise AssertionError("what is awaited does not come")


def said(screen: MainScreen, name: str) -> str:
    """The text of a part of the screen."""
    return str(screen.query_one(f"#{name}", Static).render())


def shown_now(pilot: Pilot[None]) -> object:
    """The dialog or the main screen, whichever takes the keys."""
    return pilot.app.screen


def chart(screen: MainScreen) -> str:
    return "\n".join("".join(segment.text for segment in line) for line in screen.chart.drawing.lines)


@played()
async def test_arrows_and_letters_select(pilot: Pilot[None], screen: MainScreen) -> None:
    steps = ["right", "0F1", "left", "0F0", "l", "0F1", "h", "0F0", "j", "1F0", "k", "0F1", "down", "1F0", "up", "0F1"]
    for key, name in zip(steps[::2], steps[1::2], strict=True):
        await pilot.press(key)
        assert screen.state.sheet.selected_name == name, key


@played()
async def test_a_key_moves_undoes_and_redoes(pilot: Pilot[None], screen: MainScreen) -> None:
    state = screen.state
    await pilot.press("right", ">")
    assert "(+" in said(screen, "title") or "edited" in said(screen, "title")
    after = state.board.amounts.makespan
    await pilot.press("u")
    assert state.message.startswith("undone: 0F1 from position 1 to 2")
    assert "edited" not in said(screen, "title")
    await pilot.press("ctrl+r")
    assert state.message.startswith("done again")
    assert state.board.amounts.makespan == after
    await pilot.press("<")
    assert state.sheet.version.edits == 2


@pytest.mark.slow
@played()
async def test_gaps_zoom_and_marks(pilot: Pilot[None], screen: MainScreen) -> None:
    state = screen.state
    for there, back in ("][", "}{"):
        await pilot.press(there)
        first = state.sheet.pause
        await pilot.press(there, back)
        assert state.sheet.pause == first
    await pilot.press("plus")
    assert not screen.chart.view.is_all
    await pilot.press("minus")
    assert screen.chart.view.is_all
    await pilot.press("f")
    close = screen.chart.view.window
    assert close.end - close.start < 285 / 2
    await pilot.press("0")
    assert screen.chart.view.is_all
    await pilot.press("p")
    assert "*" in chart(screen)
    await pilot.press("d", "m")
    assert "I" in chart(screen)
    assert "mem " in chart(screen)
    await pilot.press("p", "d", "m")
    assert not state.shown


@pytest.mark.slow
@played()
async def test_jump_why_and_help(pilot: Pilot[None], screen: MainScreen) -> None:
    await pilot.press("slash", *"3B7", "enter")
    assert screen.state.sheet.selected_name == "3B7"
    await pilot.press("slash", *"99F9", "enter")
    assert "99F9 does not run here" in said(screen, "message")
    await pilot.press("slash", "escape")
    assert screen.state.sheet.selected_name == "3B7"
    for key in ("w", "question_mark"):
        await pilot.press(key)
        assert isinstance(pilot.app.screen, Read)
        await pilot.press("escape")
        assert shown_now(pilot) is screen


@pytest.mark.slow
@played()
async def test_the_list_of_algorithms_is_filtered(pilot: Pilot[None], screen: MainScreen) -> None:
    """The exact name comes first."""
    state = screen.state
    await pilot.press("a")
    assert isinstance(pilot.app.screen, Pick)
    await pilot.press(*"zb-v", "enter")
    assert state.sheet.version.algorithm == "zb-v"
    await pilot.press("a", *"1f1b", "down", "enter")
    assert state.sheet.version.algorithm != "zb-v"
    await pilot.press("a", "escape", "u", "u")
    assert state.sheet.version.algorithm == "interleaved"


@pytest.mark.slow
@played()
async def test_parameters_are_live_and_one_step(pilot: Pilot[None], screen: MainScreen) -> None:
    await pilot.press("e")
    dialog = pilot.app.screen
    assert isinstance(dialog, Parameters)
    dialog.query_one("#microbatches", Input).value = "12"
    await pilot.pause()
    assert "M12" in said(screen, "title")
    dialog.query_one("#forward", Input).value = "none of it"
    await pilot.pause()
    assert "forward" in str(dialog.query_one("#wrong", Static).render())
    await pilot.press("down", "up", "enter")
    await pilot.press("u")
    assert "M8" in said(screen, "title")


@played((200, 50))
async def test_keep_and_switch(pilot: Pilot[None], screen: MainScreen) -> None:
    await pilot.press("c", "right", ">", "tab")
    assert "[2/2]" in said(screen, "title")
    assert screen.state.board.amounts.makespan == 285
    await until(pilot, lambda: "1 interleaved" in "".join(segment.text for segment in screen.kept.lines[0]))


@played()
async def test_best_move_and_solve_run_beside_the_app(pilot: Pilot[None], screen: MainScreen) -> None:
    state = screen.state
    await pilot.press("slash", *"4F0", "enter", ">")
    assert state.board.amounts.makespan == 295
    await pilot.press("x")
    await settled(pilot, screen)
    assert state.board.amounts.makespan == 285
    await pilot.press("x")
    await settled(pilot, screen)
    assert state.message == "no single move shortens it"
    await pilot.press("S")
    await settled(pilot, screen)
    assert state.sheet.version.algorithm == "interleaved"
    assert "solve: nothing shorter than 285; proved for placement loop, whole backward" in said(screen, "message")


class Patient(PipelinePlanner):
    """Its solves wait until they are stopped."""

    def solve(self, board: object, stop: Event, tell: Tell) -> Planned:
        stop.wait()
        return super().solve(board, stop, tell)


def patient() -> State:
    outcome = outcome_of("zb-h1", stages=4, microbatches=24, forward=7, backward=13, p2p=3)
    return state_at(outcome, Patient(maker("zb-h1")))


@played(make=patient)
async def test_escape_stops_a_solve_and_nothing_is_edited_meanwhile(pilot: Pilot[None], screen: MainScreen) -> None:
    await pilot.press("right", "S")
    before, work = screen.state.sheet.version, screen.work
    await pilot.press(">", "x")
    assert (screen.state.sheet.version, screen.work) == (before, work)
    assert "Esc stop" in said(screen, "footer")
    await pilot.press("escape")
    await settled(pilot, screen)
    assert said(screen, "message").startswith("solve: nothing shorter than 537; split backward, at most")


def test_an_error_of_a_search_ends_the_app() -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    work = Work("solve", broken, broken)
    work.thread.join()
    with pytest.raises(RuntimeError, match="broken"):
        work.finish()


@pytest.mark.slow
@played()
async def test_saving_asks_for_a_path_and_before_it_overwrites(pilot: Pilot[None], screen: MainScreen) -> None:
    file = Path("x.json")
    await pilot.press("right", ">", "s", *"x.json", "enter")
    assert "saved x.json: read back and checked" in said(screen, "message")
    assert check(read(file)) == []
    stamp = file.stat().st_mtime_ns
    await pilot.press("s", *"x.json", "enter")
    assert isinstance(pilot.app.screen, Confirm)
    await pilot.press("n")
    assert file.stat().st_mtime_ns == stamp
    await pilot.press("s", *"x.json", "enter", "y")
    assert file.stat().st_mtime_ns != stamp
    await pilot.press("s", *"x.what", "enter")
    assert "must end in" in said(screen, "message")
    await pilot.press("s", "escape")


@pytest.mark.slow
@played()
async def test_leaving_asks_only_where_something_is_not_saved(pilot: Pilot[None], screen: MainScreen) -> None:
    await pilot.press("right", ">", "q")
    assert isinstance(pilot.app.screen, Confirm)
    await pilot.press("n")
    assert shown_now(pilot) is screen
    await pilot.press("q", "escape")
    assert shown_now(pilot) is screen
    await pilot.press("ctrl+c", "y")
    assert pilot.app._exit


def place(screen: MainScreen, name: str) -> tuple[int, int]:
    """The cell in which an operation begins."""
    task = screen.state.board.find(name)
    assert task is not None
    row = screen.state.board.tasks.machine[task]
    drawing = screen.chart.drawing
    return drawing.gutter + drawing.scale.column(screen.state.board.tasks.starts[task]), drawing.rows.index(row)


@played()
async def test_a_refused_drop_says_why_and_escape_cancels(pilot: Pilot[None], screen: MainScreen) -> None:
    state = screen.state
    x, y = place(screen, "7B3")
    start, _ = place(screen, "3F0")
    await pilot.mouse_down("#chart", offset=(x, y))
    await pilot.hover("#chart", offset=(start, y))
    assert "7B3 waits for 7F3" in said(screen, "message")
    assert "!" in chart(screen)
    await pilot.mouse_up("#chart", offset=(start, y))
    assert state.sheet.version.edits == 0
    assert state.message == "7B3 waits for 7F3"
    x, y = place(screen, "0F1")
    far, _ = place(screen, "4F0")
    await pilot.mouse_down("#chart", offset=(x, y))
    await pilot.hover("#chart", offset=(far, y))
    assert "|" in chart(screen)
    await pilot.press("escape")
    assert "|" not in chart(screen)
    await pilot.mouse_up("#chart", offset=(far, y))
    assert state.sheet.version.edits == 0
    await pilot.mouse_down("#chart", offset=(x, y))
    await pilot.hover("#chart", offset=(far, y))
    await pilot.mouse_up("#chart", offset=(far, y))
    assert state.message.startswith("0F1 from position 1 to")


def offloaded() -> State:
    return state_at(run(make_problem(devices=4, microbatches=8, offload=5), "1f1b", offload=1))


@played((100, 40), offloaded, colour=False)
async def test_a_transfer_is_selected_by_a_click_and_not_moved(pilot: Pilot[None], screen: MainScreen) -> None:
    state = screen.state
    x, y = place(screen, "0O1")
    await pilot.click("#chart", offset=(x, y))
    assert state.sheet.selected_name == "0O1"
    assert "^" in chart(screen).splitlines()[screen.chart.drawing.rows.index(4) + 2]
    await pilot.mouse_down("#chart", offset=(x, y))
    await pilot.hover("#chart", offset=(x + 20, y))
    await pilot.mouse_up("#chart", offset=(x + 20, y))
    assert state.message == "0O1 is a transfer; only what devices run can be moved"
    assert not state.sheet.version.edits
    await pilot.press("up")
    assert state.board.tasks.machine[state.selected] == 0


@played()
async def test_the_wheel_pans_and_zooms_at_the_pointer(pilot: Pilot[None], screen: MainScreen) -> None:
    async def wheel(kind: type[events.MouseEvent], *, ctrl: bool = False, shift: bool = False) -> None:
        screen.chart.post_message(kind(screen.chart, 40, 5, 0, 1, 0, shift, False, ctrl, 40, 6))
        await pilot.pause()

    await wheel(events.MouseScrollUp, ctrl=True)
    close = screen.chart.view.window
    assert close.end - close.start < 285
    await wheel(events.MouseScrollDown)
    assert screen.chart.view.window.start > close.start
    await wheel(events.MouseScrollUp)
    assert screen.chart.view.window == close
    await wheel(events.MouseScrollDown, shift=True)
    assert screen.state.board.tasks.machine[screen.state.selected] == 1
    await wheel(events.MouseScrollDown, ctrl=True)
    assert screen.chart.view.is_all


def test_the_empty_mode() -> None:
    pool = pool_of(devices=2, stages=2, microbatches=2)

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press("enter", "enter")
        assert 'plan(problem, [["0F0", "0F1"], []])' in said(screen, "code")
        assert "6 to place" in said(screen, "title")
        await pilot.press("backspace")
        assert "7 to place" in said(screen, "title")
        await pilot.press("down", "up", "tab")
        assert screen.chart.has_focus
        await pilot.press("tab")
        assert screen.pool_list is not None
        assert screen.pool_list.has_focus
        row = screen.pool_list.rows.index(pool.waiting[0])
        name = pool.board.name(pool.waiting[0])
        device = pool.board.homes(pool.waiting[0])[0]
        line = screen.chart.drawing.rows.index(device)
        await pilot.mouse_down("#pool", offset=(4, row))
        await pilot.mouse_up("#chart", offset=(20, line))
        assert pool.board.find(name) is not None
        await pilot.press("2")
        assert not pool.waiting
        assert "all placed" in str(screen.pool_list.render())
        await pilot.press("u", "1", "3")
        assert pool.state.sheet.version.algorithm == "interleaved"

    play(app_of(pool.state, pool), script)


@played((80, 5))
async def test_a_small_terminal_gets_a_sentence(pilot: Pilot[None], screen: MainScreen) -> None:
    assert screen.query_one("#small").display
    assert not screen.query_one("#all").display
    await pilot.press("right", ">")
    await pilot.resize_terminal(80, 24)
    await until(pilot, lambda: screen.query_one("#all").display)


@pytest.mark.parametrize("width", [30, 69, 80, 139, 140])
@pytest.mark.parametrize("height", [8, 24, 50])
def test_no_line_of_the_chart_is_wider_or_higher_than_there_is_room(width: int, height: int) -> None:
    for colour in (True, False):
        state = state_of(devices=16, stages=32, microbatches=16)
        state.shown |= {"critical", "inputs", "memory"}
        state.jump("20B3")
        drawing = draw(state, Viewport(1), BoardScreen(width, height, colour))
        assert len(drawing.rows) <= len(drawing.lines) <= height
        assert all(sum(segment.cell_length for segment in line) <= width for line in drawing.lines)
        assert state.board.tasks.machine[state.selected] in drawing.rows


def test_every_key_of_the_table_has_an_action() -> None:
    for key in KEYS:
        assert hasattr(MainScreen, f"action_{key.action.partition('(')[0]}")


def test_many_operations_are_moved_once_the_keys_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipesched.explore.state.LIVE", 10)
    state = state_of()

    async def pressed(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press("right", ">", ">")
        assert state.sheet.version.edits == 0
        assert "+2" in said(screen, "message")

    async def rested(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press(">")
        await until(pilot, lambda: state.sheet.version.edits == 1)
        assert state.board.tasks.orders[0].index(state.selected) == 2

    monkeypatch.setattr("pipesched.explore.app.app.REST", 3600)
    play(app_of(state), pressed)
    monkeypatch.setattr("pipesched.explore.app.app.REST", 0.01)
    play(app_of(state), rested)
