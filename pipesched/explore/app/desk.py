"""The main screen: the chart, what stands around it, and the keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from pipesched.core.reasons import NOTHING
from pipesched.errors import ConfigError
from pipesched.explore.app import panels
from pipesched.explore.app.chart import Chart
from pipesched.explore.app.dialogs import Ask, Confirm, Dialog, Parameters, Pick, Read, keys_text
from pipesched.explore.app.work import Work
from pipesched.explore.keys import KEYS
from pipesched.explore.pool import Pool
from pipesched.explore.saving import exists
from pipesched.explore.state import State

LEAST_WIDTH, LEAST_HEIGHT = 30, 8
WIDE, HIGH = 140, 30  # from where parameters, reasons and kept schedules have room
QUICK = 3_000  # tasks up to which all is explained at every key
LOOK_EVERY, REST = 0.05, 0.25  # seconds
CHANGING = (  # not while a search runs
    "move", "undo", "redo", "best", "solve", "algorithm", "parameters", "keep", "switch", "save", "place", "take_back",
    "preset",
)  # fmt: skip
SMALL = "too small: explore needs 30 columns and 8 lines"


class Kept(Widget):
    """The kept schedules on one scale."""

    def __init__(self, chart: Chart) -> None:
        super().__init__(id="kept")
        self.chart = chart

    def render_lines(self, crop: Any) -> list[Strip]:
        """Draw them anew, then cut."""
        chart, (width, height) = self.chart, self.size
        self.lines = panels.kept_lines(
            chart.state, chart.drawing, width, height, letters=not chart.colour, ascii_only=chart.ascii_only
        )
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Return a line of them."""
        line = self.lines[y] if y < len(self.lines) else []
        return Strip([*line, Segment("")]).adjust_cell_length(self.size.width).apply_style(self.rich_style)


class PoolList(Static):
    """The operations that are not placed yet; one is dragged from here to its device."""

    can_focus = True

    def __init__(self, pool: Pool) -> None:
        super().__init__(id="pool", markup=False)
        self.pool, self.rows = pool, [NOTHING]

    def show(self) -> None:
        """Show what is left."""
        lines, rows = panels.pool_lines(self.pool, self.size.height or 16, focused=self.has_focus)
        self.rows = [*rows]
        self.update(Text("\n").join(lines))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Choose, and take along."""
        task = self.rows[event.y] if event.y < len(self.rows) else NOTHING
        if task != NOTHING:
            self.pool.chosen = task
            self.capture_mouse()
            self.show()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Place it on the device where it is let go."""
        self.release_mouse()
        desk = self.screen
        assert isinstance(desk, Desk)
        row = desk.chart.row_at_screen(event.screen_x, event.screen_y)
        if row != NOTHING:
            self.pool.place(row)
        desk.show()

    def on_resize(self) -> None:
        """Show as much as there is room for."""
        self.show()


class Desk(Screen[None]):
    """The main screen of the app."""

    BINDINGS = [  # noqa: RUF012  Textual's way
        *(Binding(key.keys, key.action, key.text, show=False, priority=True) for key in KEYS),
        Binding("ctrl+q,ctrl+c", "leave", "leave", show=False, priority=True),
    ]

    def __init__(self, state: State, pool: Pool | None, *, colour: bool, ascii_only: bool) -> None:
        super().__init__()
        self.state, self.pool = state, pool
        self.colour, self.ascii_only = colour, ascii_only
        self.chart = Chart(state, colour=colour, ascii_only=ascii_only)
        self.pool_list = None if pool is None else PoolList(pool)
        self.kept = Kept(self.chart)
        self.work: Work[Any] | None = None
        self._steps = 0  # that a large schedule still has to make, once the keys rest
        self._planned = False
        self._resting: Timer | None = None

    def compose(self) -> ComposeResult:
        """Yield what stands on the screen."""
        yield Static(SMALL, id="small", markup=False)
        with Vertical(id="all"):
            yield Static(id="title", markup=False)
            with Horizontal(id="middle"):
                yield Static(id="parameters", markup=False)
                if self.pool_list is not None:
                    yield self.pool_list
                with Vertical(id="charts"):
                    yield self.chart
                    yield self.kept
                with VerticalScroll(id="reasons", can_focus=False):
                    yield Static(id="reasons-text", markup=False)
            yield Static(id="details", markup=False)
            yield Static(id="code", markup=False)
            yield Static(id="message", markup=False)
            yield Static(id="footer", markup=False)

    def on_mount(self) -> None:
        """Begin on the chart, or with the pool."""
        (self.pool_list or self.chart).focus()
        self.set_interval(LOOK_EVERY, self._look)
        self.show()

    def on_resize(self) -> None:
        """Show more or less."""
        self.show()

    def on_chart_changed(self) -> None:
        """Show what the mouse changed."""
        self.show(follow=False)

    def show(self, *, follow: bool = True) -> None:
        """Show the state as it is now."""
        width, height = self.app.size
        is_small = width < LEAST_WIDTH or height < LEAST_HEIGHT
        self.set_class(is_small, "small")
        self.set_class(width >= WIDE and height >= HIGH, "wide")
        self.set_class(height < 16, "low")
        self.set_class(self.pool is not None, "empty")
        self.set_class(len(self.state.sheets) > 1, "compared")
        if is_small:
            return
        if self.pool is not None and self.pool_list is not None:
            self.pool.settle()
            self.pool_list.show()
            self._text("code", Text(self.pool.code(), no_wrap=True, overflow="ellipsis", style="dim"))
        self.chart.follow() if follow and not self.chart.is_pressed else self.chart.redraw()
        self.kept.refresh()
        self._text("title", panels.title_text(self.state, width))
        self._say()
        if self._resting is not None:
            self._resting.stop()
            self._resting = None
        if len(self.state.board.tasks.durations) <= QUICK:
            self._explain()
        else:
            self._resting = self.set_timer(REST, self._explain)

    def _explain(self) -> None:
        """Show what is known of the selected operation; of large schedules once the keys rest."""
        self._text("details", panels.details_text(self.state))
        if self.has_class("wide"):
            self._text("parameters", panels.parameters_text(self.state))
            self._text("reasons-text", panels.reasons_text(self.state))

    def _say(self) -> None:
        searching = self.work is not None
        said = (self.work.said if self.work is not None else "") or self.state.message
        self._text("message", Text(said, no_wrap=True, overflow="ellipsis"))
        width = self.app.size.width
        empty = self.pool is not None
        self._text("footer", panels.footer_text(self.state, width, empty=empty, searching=searching))

    def _text(self, name: str, text: Any) -> None:
        self.query_one(f"#{name}", Static).update(text)

    # Work that takes long

    def _begin(self, work: Work[Any]) -> None:
        self.work = work
        self._say()

    def _look(self) -> None:
        """See whether the work is done."""
        work = self.work
        if work is None:
            return
        if work.is_running:
            self._say()
            return
        self.work = None
        self.state.message = work.error
        work.finish()
        self.show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let only keys act that do not change what is searched."""
        if self.work is not None and action in CHANGING:
            return False
        return self.pool is not None or action not in ("place", "take_back", "preset")

    # Keys

    def action_step(self, along: int, rows: int) -> None:
        """Select a neighbour, or choose another operation of the pool."""
        if self.pool is not None and self.pool_list is not None and self.pool_list.has_focus:
            self.pool.choose(rows or along)
        else:
            self.state.message = ""
            self.state.step(along, rows)
        self.show()

    def action_gap(self, steps: int) -> None:
        """Go to the next gap."""
        self.state.go_to_gap(steps)
        self.show()

    def action_gap_by_size(self, steps: int) -> None:
        """Go to the next smaller gap."""
        self.state.go_to_gap(steps, by_size=True)
        self.show()

    def action_move(self, steps: int) -> None:
        """Move the selected operation; of a large schedule once the keys rest."""
        if self.state.is_live:
            self.state.move_by(steps)
            self.show()
            return
        if not self._steps:
            self.set_timer(REST, self._move_on)
        self._steps += steps
        self.state.message = f"{self.state.sheet.selected_name} by {self._steps:+}"
        self._say()

    def _move_on(self) -> None:
        steps, self._steps = self._steps, 0
        if steps:
            self.state.move_by(steps)
        self.show()

    def action_undo(self) -> None:
        """Undo."""
        self.state.undo()
        self.show()

    def action_redo(self) -> None:
        """Redo."""
        self.state.redo()
        self.show()

    def action_best(self) -> None:
        """Make the best move."""
        self.state.message = "looking for the best move"

        def made(move: Any) -> None:
            self.state.make_move(move)

        self._begin(Work(lambda stop, _tell: self.state.best_move(stop), made))

    def action_solve(self) -> None:
        """Search in a thread; Esc stops it."""
        board = self.state.board
        self.state.message = "solving"
        self._begin(Work(lambda stop, tell: self.state.planner.solve(board, stop, tell), self._adopt))

    def _adopt(self, planned: Any) -> None:
        self.state.adopt(planned)

    def action_stop(self) -> None:
        """Stop a search, cancel a drag."""
        if self.chart.end_drag():
            self.state.message = "not moved"
        elif self.work is not None:
            self.work.stop.set()
            self.work.said = "stopping"
        self.show()

    async def _open(self, dialog: Dialog, done: Callable[[str | None], None] | None = None) -> None:
        """Open a dialog; no key is looked at before it is there, so that all that is typed reaches it."""
        await self.app.push_screen(dialog, done)
        for line in dialog.query(Input).results():
            dialog.set_focus(line)
            break

    async def action_jump(self) -> None:
        """Ask for an operation."""

        def go(text: str | None) -> None:
            if text:
                self.state.jump(text)
            self.show()

        await self._open(Ask("jump to (such as 3B7):"), go)

    async def action_why(self) -> None:
        """Say why."""
        await self._open(Read(panels.why_text(self.state)))

    async def action_keys(self) -> None:
        """Show the keys."""
        await self._open(Read(keys_text(empty=self.pool is not None)))

    def action_mark(self, what: str) -> None:
        """Show or hide something."""
        self.state.toggle(what)
        self.show()

    def action_zoom(self, factor: float) -> None:
        """Zoom at the selected operation."""
        self.chart.zoom(factor)
        self.kept.refresh()

    def action_zoom_all(self) -> None:
        """See all."""
        self.chart.view.show_all()
        self.chart.redraw()
        self.kept.refresh()

    def action_zoom_selected(self) -> None:
        """See the selected operation large."""
        self.chart.zoom_selected()
        self.kept.refresh()

    async def action_algorithm(self) -> None:
        """Ask for another algorithm."""

        def plan(name: str | None) -> None:
            if name is not None:
                self.state.plan(name)
            self.show()

        await self._open(Pick(self.state.planner.choices(), self.state.sheet.version.algorithm), plan)

    async def action_parameters(self) -> None:
        """Change parameters; the chart follows as they are typed."""
        self._planned = False

        def change(name: str, text: str) -> str:
            done = self.state.plan(parameters={name: text}, again=self._planned)
            self._planned = self._planned or done
            self.show()
            return "" if done else self.state.message

        await self._open(Parameters(self.state.planner.fields(self.state.board), change), lambda _: self.show())

    def action_keep(self) -> None:
        """Keep the schedule."""
        self.state.keep()
        self.show()

    def action_switch(self, steps: int) -> None:
        """Turn to the next kept schedule; beside a pool, from it to the chart and back."""
        if self.pool_list is not None and len(self.state.sheets) == 1:
            (self.chart if self.pool_list.has_focus else self.pool_list).focus()
        else:
            self.state.switch(steps)
        self.show()

    async def action_save(self) -> None:
        """Ask for a path, and whether an existing file may go."""

        def save(path: str | None) -> None:
            if not path:
                return
            try:
                if not exists(path.strip()):
                    self.state.save(path)
                    self.show()
                    return
            except ConfigError as error:
                self.state.message = str(error)
                self.show()
                return

            def overwrite(answer: str | None) -> None:
                if answer == "y":
                    self.state.save(path, force=True)
                else:
                    self.state.message = "not saved"
                self.show()

            self.app.push_screen(Confirm(f"{path.strip()} exists; overwrite it? (y/n)"), overwrite)

        await self._open(Ask("save to (.json, .csv, .svg, ..):"), save)

    async def action_leave(self) -> None:
        """Leave, but ask where something is not saved."""

        def leave(answer: str | None) -> None:
            if answer == "y":
                self._leave()

        if self.state.is_unsaved:
            await self._open(Confirm("leave without saving? (y/n)"), leave)
        else:
            self._leave()

    def _leave(self) -> None:
        if self.work is not None:
            self.work.stop.set()
        self.app.exit()

    # With a pool

    def action_place(self) -> None:
        """Place the chosen operation."""
        if self.pool is not None:
            self.pool.place()
            self.show()

    def action_take_back(self) -> None:
        """Take the last operation of the selected device out."""
        if self.pool is not None:
            self.pool.take_back()
            self.show()

    def action_preset(self, number: int) -> None:
        """Take a whole schedule."""
        if self.pool is not None:
            self.pool.preset(number)
            self.show()
