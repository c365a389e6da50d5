"""Every key and every mouse action of the app, pressed in a terminal of 80x24 that Textual pretends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from pipesched import check, make_problem, read, run
from pipesched.core.reasons import NOTHING
from pipesched.explore.app.app import ExploreApp, MainScreen
from pipesched.explore.app.dialogs import Confirm, Read
from pipesched.explore.pipeline_board import PipelinePlanner, board_of
from pipesched.explore.sheet import loaded
from pipesched.explore.state import KEYS, State
from tests.explore.conftest import app_of, maker, pool_of, ran, state_of

Script = Callable[[Pilot[None], MainScreen], Awaitable[None]]


def play(app: ExploreApp, script: Script, size: tuple[int, int] = (80, 24)) -> ExploreApp:
    """Run the app, and in it a script."""

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await script(pilot, app.main_screen)

    ran(run())
    return app


def press(state: State, *keys: str, size: tuple[int, int] = (80, 24)) -> MainScreen:
    """Press keys, and return the screen as it was at the end."""

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press(*keys)
        await settled(pilot, screen)

    return play(app_of(state), script, size).main_screen


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


@pytest.mark.slow
def test_arrows_and_letters_select() -> None:
    state = state_of()

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        for keys, name in (
            ("right", "0F1"), ("left", "0F0"), ("l", "0F1"), ("h", "0F0"), ("down", "1F0"), ("up", "0F1"),
            ("left", "0F0"), ("j", "1F0"), ("k", "0F1"),
        ):  # fmt: skip
            await pilot.press(keys)
            assert state.sheet.selected_name == name, keys

    play(app_of(state), script)


def test_a_key_moves_undoes_and_redoes() -> None:
    state = state_of()

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
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

    play(app_of(state), script)


@pytest.mark.slow
def test_gaps_zoom_and_marks() -> None:
    state = state_of()

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press("]")
        first = state.sheet.pause
        await pilot.press("]", "[")
        assert state.sheet.pause == first
        await pilot.press("}")
        largest = state.sheet.pause
        await pilot.press("}", "{")
        assert state.sheet.pause == largest
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

    play(app_of(state), script)


@pytest.mark.slow
def test_jump_why_and_help() -> None:
    state = state_of()

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press("slash", *"3B7", "enter")
        assert state.sheet.selected_name == "3B7"
        await pilot.press("slash", *"99F9", "enter")
        assert "99F9 does not run here" in said(screen, "message")
        await pilot.press("slash", "escape")
        assert state.sheet.selected_name == "3B7"
        for key in ("w", "question_mark"):
            await pilot.press(key)
            assert isinstance(pilot.app.screen, Read)
            await pilot.press("escape")
            assert shown_now(pilot) is screen

    play(app_of(state), script)


def test_kept_schedules_are_drawn_where_there_is_room() -> None:
    state = state_of()

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press("c", "a", *"1f1b", "enter")
        await pilot.pause()
        assert screen.kept.size.height > 4
        assert "2 interleaved" in "".join(segment.text for segment in screen.kept.lines[0])
        assert [line.about for line in screen.parameters.lines][:3] == ["algorithm", "microbatches", "stages"]
        assert "idle time" in said(screen, "reasons-text")

    play(app_of(state), script, (200, 50))


def test_best_move_and_solve_run_beside_the_app() -> None:
    state = state_of()

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press("slash", *"4F0", "enter", ">")
        assert state.board.amounts.makespan == 295
        await pilot.press("x")
        await settled(pilot, screen)
        assert state.board.amounts.makespan == 285
        await pilot.press("S")
        await settled(pilot, screen)
        assert state.sheet.version.algorithm == "interleaved"
        assert "solve: nothing shorter than 285; proved for placement loop, whole backward" in said(screen, "message")

    play(app_of(state), script)


def test_escape_stops_a_solve_and_nothing_is_edited_meanwhile() -> None:
    state = state_of("zb-h1", stages=4, microbatches=24, forward=7, backward=13, p2p=3)

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press("S")
        await pilot.pause(0.3)
        if screen.work is not None:
            before = state.sheet.version
            await pilot.press(">", "u", "x")
            assert state.sheet.version is before
            assert "Esc stop" in said(screen, "footer")
            await pilot.press("escape")
        await settled(pilot, screen)
        assert screen.work is None

    play(app_of(state), script)


@pytest.mark.slow
def test_saving_asks_for_a_path_and_before_it_overwrites(tmp_path: Path) -> None:
    state = state_of()

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press("right", ">", "s", *"x.json", "enter")
        assert "saved x.json: read back and checked" in said(screen, "message")
        assert check(read(tmp_path / "x.json")) == []
        stamp = (tmp_path / "x.json").stat().st_mtime_ns
        await pilot.press("s", *"x.json", "enter")
        assert isinstance(pilot.app.screen, Confirm)
        await pilot.press("n")
        assert (tmp_path / "x.json").stat().st_mtime_ns == stamp
        await pilot.press("s", *"x.json", "enter", "y")
        assert (tmp_path / "x.json").stat().st_mtime_ns != stamp
        await pilot.press("s", *"x.what", "enter")
        assert "must end in" in said(screen, "message")
        await pilot.press("s", "escape")

    play(app_of(state), script)


@pytest.mark.slow
def test_leaving_asks_only_where_something_is_not_saved() -> None:
    async def at_once(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press("q")
        assert not pilot.app.is_running or pilot.app._exit

    play(app_of(state_of()), at_once)

    async def asks(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press("right", ">", "q")
        assert isinstance(pilot.app.screen, Confirm)
        await pilot.press("n")
        assert shown_now(pilot) is screen
        await pilot.press("q", "escape")
        assert shown_now(pilot) is screen
        await pilot.press("ctrl+c", "y")
        assert pilot.app._exit

    play(app_of(state_of()), asks)


def place(screen: MainScreen, name: str) -> tuple[int, int]:
    """The cell in which an operation begins."""
    task = screen.state.board.find(name)
    assert task is not None
    row = screen.state.board.tasks.machine[task]
    drawing = screen.chart.drawing
    return drawing.gutter + drawing.scale.column(screen.state.board.tasks.starts[task]), drawing.rows.index(row)


def test_a_click_selects_and_a_drag_moves() -> None:
    state = state_of()

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.click("#chart", offset=place(screen, "2F2"))
        assert state.sheet.selected_name == "2F2"
        x, y = place(screen, "0F1")
        far, _ = place(screen, "4F0")
        await pilot.mouse_down("#chart", offset=(x, y))
        await pilot.hover("#chart", offset=(far, y))
        assert "0F1 to position" in said(screen, "message")
        assert "|" in chart(screen)
        await pilot.mouse_up("#chart", offset=(far, y))
        assert state.sheet.version.edits == 1
        assert state.message.startswith("0F1 from position 1 to")
        assert "|" not in chart(screen)

    play(app_of(state), script)


def test_a_refused_drop_says_why_and_escape_cancels() -> None:
    state = state_of()

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
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
        await pilot.mouse_down("#chart", offset=(x, y))
        await pilot.hover("#chart", offset=(x + 6, y))
        await pilot.press("escape")
        await pilot.mouse_up("#chart", offset=(x + 6, y))
        assert state.sheet.version.edits == 0

    play(app_of(state), script)


def test_a_transfer_is_selected_by_a_click_and_not_moved() -> None:
    plan = run(make_problem(devices=4, microbatches=8, offload=5), "1f1b", offload=1)
    state = State(loaded(board_of(plan), plan.algorithm), PipelinePlanner(maker("1f1b")))

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        x, y = place(screen, "0O1")
        await pilot.click("#chart", offset=(x, y))
        assert state.sheet.selected_name == "0O1"
        assert "^" in chart(screen).splitlines()[screen.chart.drawing.rows.index(4) + 1]
        await pilot.mouse_down("#chart", offset=(x, y))
        await pilot.hover("#chart", offset=(x + 20, y))
        await pilot.mouse_up("#chart", offset=(x + 20, y))
        assert state.message == "0O1 is a transfer; only what devices run can be moved"
        assert not state.sheet.version.edits
        await pilot.press("up")
        assert state.board.tasks.machine[state.selected] == 0

    play(app_of(state), script, (100, 40))


def test_the_wheel_pans_and_zooms_at_the_pointer() -> None:
    from textual import events

    state = state_of()

    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        def wheel(kind: type[events.MouseEvent], *, ctrl: bool = False, shift: bool = False) -> None:
            screen.chart.post_message(kind(screen.chart, 40, 5, 0, 1, 0, shift, False, ctrl, 40, 6))

        wheel(events.MouseScrollUp, ctrl=True)
        await pilot.pause()
        close = screen.chart.view.window
        assert close.end - close.start < 285
        wheel(events.MouseScrollDown)
        await pilot.pause()
        assert screen.chart.view.window.start > close.start
        wheel(events.MouseScrollUp)
        await pilot.pause()
        assert screen.chart.view.window == close
        wheel(events.MouseScrollDown, shift=True)
        await pilot.pause()
        assert state.board.tasks.machine[state.selected] == 1
        wheel(events.MouseScrollDown, ctrl=True)
        await pilot.pause()
        assert screen.chart.view.is_all

    play(app_of(state), script)


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


def test_a_small_terminal_gets_a_sentence() -> None:
    async def script(pilot: Pilot[None], screen: MainScreen) -> None:
        assert screen.query_one("#small").display
        assert not screen.query_one("#all").display
        await pilot.press("right", ">")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert screen.query_one("#all").display

    play(app_of(state_of()), script, (20, 24))


@pytest.mark.parametrize("width", [30, 69, 140])
@pytest.mark.parametrize("height", [8, 24, 30])
def test_no_line_of_the_chart_is_wider_or_higher_than_there_is_room(width: int, height: int) -> None:
    from pipesched.explore.drawing import BoardScreen, Viewport, draw

    for colour in (True, False):
        state = state_of(devices=16, stages=32, microbatches=16)
        state.shown |= {"critical", "inputs", "memory"}
        state.jump("20B3")
        drawing = draw(state, Viewport(1), BoardScreen(width, height, colour))
        assert len(drawing.lines) == len(drawing.rows) or len(drawing.lines) >= len(drawing.rows)
        assert len(drawing.lines) <= height
        assert all(sum(segment.cell_length for segment in line) <= width for line in drawing.lines)
        assert state.board.tasks.machine[state.selected] in drawing.rows


def test_every_key_of_the_table_has_an_action() -> None:
    for key in KEYS:
        assert hasattr(MainScreen, f"action_{key.action.partition('(')[0]}")
    assert NOTHING == -1


def test_many_operations_are_moved_once_the_keys_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipesched.explore import state as model
    from pipesched.explore.app import app as screen

    monkeypatch.setattr(model, "LIVE", 10)
    state = state_of()

    async def pressed(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press("right", ">", ">")
        assert state.sheet.version.edits == 0
        assert "+2" in said(screen, "message")

    async def rested(pilot: Pilot[None], screen: MainScreen) -> None:
        await pilot.press(">")
        await until(pilot, lambda: state.sheet.version.edits == 1)
        assert state.board.tasks.orders[0].index(state.selected) == 2

    monkeypatch.setattr(screen, "REST", 3600)
    play(app_of(state), pressed)
    monkeypatch.setattr(screen, "REST", 0.01)
    play(app_of(state), rested)


def test_an_error_of_the_app_ends_it_and_is_raised() -> None:
    class Broken(State):
        def undo(self) -> bool:
            raise RuntimeError("broken")

    state = state_of()
    state.__class__ = Broken
    with pytest.raises(RuntimeError, match="broken"):
        press(state, "u")
