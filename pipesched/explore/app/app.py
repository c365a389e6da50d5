"""The app, begun by `run_app`: `MainScreen` has the chart, what stands around it, and keys; `Work` what takes long.

A key of KEYS calls its `action_..`, which changes the `State` or opens a dialog; then `show` draws all from the state.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, Generic, TypeVar

from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES
from textual.timer import Timer
from textual.widgets import Input, Static

from pipesched.core.clock import TimeIsUp
from pipesched.core.reasons import NOTHING
from pipesched.errors import ConfigError, PipeschedError
from pipesched.explore.app import panels
from pipesched.explore.app.chart import ChartWidget, Kept, PoolList
from pipesched.explore.app.dialogs import Ask, Confirm, Dialog, ParameterLines, Parameters, Pick, Read
from pipesched.explore.board import Tell
from pipesched.explore.sheet import details
from pipesched.explore.state import AT_ONCE, KEYS, MOUSE, State, Unplaced
from pipesched.file_formats.registry import format_for
from pipesched.results.kinds import SCHEDULE

LEAST_WIDTH, LEAST_HEIGHT = 30, 8
WIDE, HIGH = 140, 30  # from where parameters, reasons and kept schedules have room
LOOK_EVERY, REST = 0.05, 0.25  # seconds
CHANGING = (  # not while a search runs
    "move", "undo", "redo", "best", "solve", "algorithm", "parameters", "keep", "switch", "save", "place", "take_back",
    "preset",
)  # fmt: skip
SMALL = "too small: explore needs 30 columns and 8 lines"

Result = TypeVar("Result")


class Work(Generic[Result]):
    """A call in a thread. `said` is what it last told; `error` is why it ended without a result, behind its `name`."""

    def __init__(self, name: str, call: Callable[[Event, Tell], Result], done: Callable[[Result], object]) -> None:
        self.stop = Event()
        self.said, self.error = "", ""
        self._name, self._call, self._done = name, call, done
        self._found: list[Result] = []
        self._crash: BaseException | None = None
        self.thread = Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._found.append(self._call(self.stop, partial(setattr, self, "said")))
        except TimeIsUp:
            self.error = f"{self._name}: stopped"
        except PipeschedError as error:
            why = "stopped before anything was found" if self.stop.is_set() else str(error)
            self.error = f"{self._name}: {why}"
        except BaseException as error:
            self._crash = error

    def finish(self) -> None:
        """Hand the result on, once it is over; raise what it could not have expected."""
        if self._crash is not None:
            raise self._crash
        if self._found:
            self._done(self._found[0])


def _then_shown(act: Callable[..., object]) -> Callable[..., None]:
    """Return the action of a key that changes the state, or the pool, of a screen: what has become of it is shown."""

    def action(screen: MainScreen, *given: Any) -> None:
        act(screen, *given)
        screen.show()

    return action


class MainScreen(Screen[None]):
    """The chart, panels around it, and keys; its `_look` looks at `work`, if any, every LOOK_EVERY seconds."""

    BINDINGS = [  # noqa: RUF012  Textual's way
        *(Binding(key.keys, key.action, key.text, show=False, priority=True) for key in KEYS),
        Binding("enter,escape", "typed", "back to the chart", show=False, priority=True),
        Binding("ctrl+q,ctrl+c", "leave_now", "leave", show=False, priority=True),
    ]

    def __init__(self, state: State, pool: Unplaced | None, *, colour: bool, ascii_only: bool) -> None:
        super().__init__()
        self.state, self.pool = state, pool
        self.chart = ChartWidget(state, colour=colour, ascii_only=ascii_only)
        self.pool_list = None if pool is None else PoolList(pool)
        self.kept = Kept(self.chart)
        names = [choice.name for choice in state.planner.choices()]
        self.parameters = ParameterLines(panels.parameter_fields(state), names, id="parameters")
        self.work: Work[Any] | None = None
        self._steps = 0  # that a large schedule still has to make, once the keys rest
        self._planned = False  # by the parameter that is typed: then the next plan is the same step
        self._resting: Timer | None = None
        self._typing: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static(SMALL, id="small", markup=False)
        with Vertical(id="all"):
            yield Static(id="title", markup=False)
            with Horizontal(id="middle"):
                yield self.parameters
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
        (self.pool_list or self.chart).focus()
        self.set_interval(LOOK_EVERY, self._look)
        self.show()

    def on_resize(self) -> None:
        self.show()

    def on_chart_widget_changed(self) -> None:
        self.show(follow=False)

    def on_parameter_lines_turned(self) -> None:
        """Begin another step of undo, and show what stands for what was typed last."""
        self._planned = False
        self._explain()

    def on_parameter_lines_typed(self, event: ParameterLines.Typed) -> None:
        if self.work is not None:
            self.state.message = "Esc stops the search; then parameters can be changed"
            self._say()
            return
        if self._typing is not None:
            self._typing.stop()
        if self.state.is_live:
            self.change(event.name, event.text)
        else:
            self._typing = self.set_timer(REST, partial(self.change, event.name, event.text))

    def on_pool_list_dropped(self, event: PoolList.Dropped) -> None:
        region = self.chart.region
        row = self.chart.drawing.row_at(event.y - region.y) if region.contains(event.x, event.y) else NOTHING
        if self.pool is not None and row != NOTHING:
            self.pool.place(row)
        self.show()

    def show(self, *, follow: bool = True) -> None:
        width, height = self.app.size
        is_small = width < LEAST_WIDTH or height < LEAST_HEIGHT
        self.set_class(is_small, "small")
        self.set_class(width >= WIDE and height >= HIGH, "wide")
        self.chart.has_room = self.has_class("wide")
        self.set_class(height < 16, "low")
        self.set_class(self.pool is not None, "empty")
        self.set_class(len(self.state.sheets) > 1, "compared")
        if is_small:
            return
        if self.parameters.is_open and not self.has_class("wide"):
            self.set_focus(self.chart)
        if self.pool is not None and self.pool_list is not None:
            self.pool.settle()
            self.pool_list.show()
            self._text("code", Text(self.pool.code(), no_wrap=True, overflow="ellipsis", style="dim"))
        self.chart.follow() if follow and not self.chart.is_pressed else self.chart.redraw()
        is_shared = self.has_class("wide") and self.has_class("compared")
        most = self.query_one("#charts").size.height * 11 // 20  # not much more than half, above kept schedules
        self.chart.styles.height = min(self.chart.drawing.wanted, most) if is_shared and most else "1fr"
        self.kept.refresh()
        self._text("title", panels.title_text(self.state, width))
        self._say()
        if self._resting is not None:
            self._resting.stop()
            self._resting = None
        if len(self.state.board.tasks.durations) <= AT_ONCE:
            self._explain()
        else:
            self._resting = self.set_timer(REST, self._explain)

    def _explain(self) -> None:
        """Show what is known of the selected operation; of large schedules once the keys rest."""
        text = Text(no_wrap=True, overflow="ellipsis")
        for number, (about, said) in enumerate(details(self.state.board, self.state.selected)):
            text.append("\n" if number else "").append(about.ljust(panels.ABOUT), style="dim" if number else "bold")
            text.append(said, style="" if number else "bold")
        self._text("details", text)
        if self.has_class("wide"):
            self.parameters.show(panels.parameter_fields(self.state))
            self._text("reasons-text", panels.reasons_text(self.state))

    def _say(self) -> None:
        said = (self.work.said if self.work is not None else "") or self.state.message
        self._text("message", Text(said, no_wrap=True, overflow="ellipsis"))
        look = {"empty": self.pool is not None, "searching": self.work is not None}
        self._text("footer", panels.footer_text(self.state, self.app.size.width, **look))

    def _text(self, name: str, text: Any) -> None:
        self.query_one(f"#{name}", Static).update(text)

    def _look(self) -> None:
        work = self.work
        if work is None:
            return
        if work.thread.is_alive():
            self._say()
            return
        self.work = None
        self.state.message = work.error
        work.finish()
        self.show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let only keys act that do not change what is searched; those of a line that is typed into are its own."""
        if self.parameters.is_open != (action == "typed") and action != "leave_now":
            return False
        if self.work is not None and action in CHANGING:
            return False
        return self.pool is not None or action not in ("place", "take_back", "preset")

    # Keys

    action_gap = _then_shown(lambda screen, steps: screen.state.go_to_gap(steps))
    action_gap_by_size = _then_shown(lambda screen, steps: screen.state.go_to_gap(steps, by_size=True))
    action_undo = _then_shown(lambda screen: screen.state.undo())
    action_redo = _then_shown(lambda screen: screen.state.redo())
    action_mark = _then_shown(lambda screen, what: screen.state.shown.symmetric_difference_update({what}))
    action_keep = _then_shown(lambda screen: screen.state.keep())
    action_place = _then_shown(lambda screen: screen.pool.place())  # these three only with a pool
    action_take_back = _then_shown(lambda screen: screen.pool.take_back())
    action_preset = _then_shown(lambda screen, number: screen.pool.preset(number))

    def action_step(self, along: int, rows: int) -> None:
        if self.pool is not None and self.pool_list is not None and self.pool_list.has_focus:
            self.pool.choose(rows or along)
        else:
            self.state.message = ""
            self.state.step(along, rows)
        self.show()

    def action_move(self, steps: int) -> None:
        if self.state.is_live:
            self.state.move_by(steps)
            self.show()
            return

        def move_on() -> None:
            steps, self._steps = self._steps, 0
            if steps:
                self.state.move_by(steps)
            self.show()

        if not self._steps:
            self.set_timer(REST, move_on)
        self._steps += steps
        self.state.message = f"{self.state.sheet.selected_name} by {self._steps:+}"
        self._say()

    def action_best(self) -> None:
        board, state = self.state.board, self.state
        state.message = "looking for the best move"
        self.work = Work("best move", lambda stop, _: state.planner.best_move(board, stop), state.make_move)
        self._say()

    def action_solve(self) -> None:
        board, state = self.state.board, self.state
        state.message = "solving"
        self.work = Work("solve", lambda stop, tell: state.planner.solve(board, stop, tell), state.take_solved)
        self._say()

    async def action_typed(self) -> None:
        await self.parameters.settle()
        self.set_focus(self.pool_list or self.chart)
        self.show()

    def action_stop(self) -> None:
        if self.chart.end_drag():
            self.state.message = "not moved"
        elif self.work is not None:
            self.work.stop.set()
            self.work.said = "stopping"
        self.show()

    def action_zoom(self, factor: float) -> None:
        self.chart.zoom(factor)
        self.kept.refresh()

    def action_zoom_all(self) -> None:
        self.chart.view.show_all()
        self.chart.redraw()
        self.kept.refresh()

    def action_zoom_selected(self) -> None:
        task, tasks, first = self.state.selected, self.state.board.tasks, self.chart.drawing.first
        if task != NOTHING:
            self.chart.view.around(tasks.starts[task] + first, tasks.ends[task] + first)
            self.chart.redraw()
            self.kept.refresh()

    def action_switch(self, steps: int) -> None:
        """Turn to the next kept schedule; beside a pool, from it to the chart and back."""
        if self.pool_list is not None and len(self.state.sheets) == 1:
            self.set_focus(self.chart if self.pool_list.has_focus else self.pool_list)
        else:
            self.state.switch(steps)
        self.show()

    # Dialogs

    async def _open(self, dialog: Dialog, done: Callable[[str | None], None] | None = None) -> None:
        """Open a dialog; no key is looked at before it is there, so that all that is typed reaches it."""
        await self.app.push_screen(dialog, done)
        for line in dialog.query(Input).results():
            dialog.set_focus(line)
            break

    async def action_jump(self) -> None:
        def go(text: str | None) -> None:
            if text:
                self.state.jump(text)
            self.show()

        await self._open(Ask("jump to (such as 3B7):"), go)

    async def action_why(self) -> None:
        await self._open(Read(panels.why_text(self.state)))

    async def action_keys(self) -> None:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="bold", min_width=9)
        keys = [(key.shown, key.text) for key in KEYS if key.mode != "empty" or self.pool is not None]
        for name, what in (*keys, *MOUSE):
            table.add_row(Text(name), Text(what))
        await self._open(Read(table))

    async def action_algorithm(self) -> None:
        def plan(name: str | None) -> None:
            if name is not None:
                self.state.plan(name)
            self.show()

        await self._open(Pick(self.state.planner.choices(), self.state.sheet.version.algorithm), plan)

    async def action_parameters(self) -> None:
        """Go to the parameters beside the chart; in a small terminal open them. The chart follows as they are typed."""
        if self.has_class("wide"):
            self.set_focus(self.parameters.lines[1])
            return
        self._planned = False
        await self._open(Parameters(self.state.fields, self.change), lambda _: self.show())

    def change(self, name: str, text: str) -> str:
        """Plan with what was typed for a parameter, as one step with what was typed before; return what is wrong."""
        done = self.state.plan_typed(name, text, again=self._planned)
        self._planned = self._planned or done
        self.show()
        return "" if done else self.state.message

    async def action_save(self) -> None:

        def save(path: str | None) -> None:
            if not path:
                return

            def overwrite(answer: str | None) -> None:
                if answer == "y":
                    self.state.save(path, force=True)
                else:
                    self.state.message = "not saved"
                self.show()

            name = path.strip()
            try:
                if not name:
                    raise ConfigError("give the path of a file, such as mine.json")
                format_for(name, SCHEDULE)
            except ConfigError as error:
                self.state.message = str(error)
            else:
                if Path(name).expanduser().exists():
                    self.app.push_screen(Confirm(f"{name} exists; overwrite it? (y/n)"), overwrite)
                    return
                self.state.save(path)
            self.show()

        await self._open(Ask("save to (.json, .csv, .svg, ..):"), save)

    async def action_leave(self) -> None:
        def end(answer: str | None) -> None:
            if answer == "y":
                self.leave()

        if self.state.is_unsaved:
            await self._open(Confirm("leave without saving? (y/n)"), end)
        else:
            self.leave()

    action_leave_now = action_leave  # also while a line is typed into

    def leave(self) -> None:
        if self.work is not None:
            self.work.stop.set()
        self.app.exit()


# The colours of the terminal, dark or light; only charts have their own, as `run` prints them.
DARK = BUILTIN_THEMES["ansi-dark"]
OWN = ("ansi-background", "ansi-foreground", "block-cursor-foreground", "block-cursor-background")
THEME = replace(DARK, name="terminal", variables={**DARK.variables, **dict.fromkeys(OWN, "ansi_default")})


class ExploreApp(App[None]):
    """Schedules under edit, in a terminal."""

    CSS_PATH = "app.css"
    ENABLE_COMMAND_PALETTE = False
    TITLE = "pipesched explore"

    def __init__(
        self, state: State, pool: Unplaced | None = None, *, colour: bool = True, ascii_only: bool = False
    ) -> None:
        before = os.environ.get("NO_COLOR")
        if not colour or ascii_only:
            os.environ["NO_COLOR"] = "1"  # Textual reads nothing else
        super().__init__(ansi_color=True)
        if before is None:
            os.environ.pop("NO_COLOR", None)
        self.register_theme(THEME)
        self.theme = THEME.name
        self.main_screen = MainScreen(state, pool, colour=not self.no_color, ascii_only=ascii_only)

    def on_mount(self) -> None:
        self.push_screen(self.main_screen)


def run_app(state: State, pool: Unplaced | None = None, *, colour: bool = True, ascii_only: bool = False) -> int:
    """Run the app until it is left; return 0, or 1 where it broke."""
    for name in ("COLUMNS", "LINES"):  # where they are exported, Textual would believe them, whatever the size is now
        os.environ.pop(name, None)
    app = ExploreApp(state, pool, colour=colour, ascii_only=ascii_only)
    app.run()
    return app.return_code or 0
