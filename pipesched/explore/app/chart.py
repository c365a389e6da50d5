"""`ChartWidget`, `Kept` schedules and `PoolList`: widgets that draw the state, and turn the mouse into its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from pipesched.core.reasons import NOTHING
from pipesched.explore.app import panels
from pipesched.explore.drawing import BoardDrawing, BoardScreen, Drop, Viewport, draw
from pipesched.explore.sheet import drop_position
from pipesched.explore.state import State, Unplaced
from pipesched.render.gantt import Line

PAN = 0.1  # of the window, a notch of the wheel


def strip(widget: Widget, lines: Sequence[Line], y: int) -> Strip:
    """Return a line of a widget as wide as it is; below the last one empty."""
    line = lines[y] if y < len(lines) else []
    return Strip([*line, Segment("")]).adjust_cell_length(widget.size.width).apply_style(widget.rich_style)


class ChartWidget(Widget, can_focus=True):
    """The schedule under edit."""

    class Changed(Message):
        """The mouse changed the state."""

    def __init__(self, state: State, *, colour: bool, ascii_only: bool) -> None:
        super().__init__(id="chart")
        self.state, self.colour, self.ascii_only = state, colour, ascii_only
        self.view = Viewport(state.board.tasks.makespan)
        self.drop: Drop | None = None
        self.has_room = False  # for what small terminals show only when asked
        self.is_pressed = self.is_dragging = False
        self._pressed_at = 0
        self._drawing: BoardDrawing | None = None

    @property
    def drawing(self) -> BoardDrawing:
        if self._drawing is None:
            width, height = max(self.size.width, 8), max(self.size.height, 3)
            screen = BoardScreen(width, height, self.colour, self.ascii_only, strips=self.has_room)
            self._drawing = draw(self.state, self.view, screen, self.drop)
        return self._drawing

    def redraw(self) -> None:
        self._drawing = None
        self.refresh()

    def on_resize(self) -> None:
        self.redraw()

    def render_line(self, y: int) -> Strip:
        return strip(self, self.drawing.lines, y)

    def follow(self) -> None:
        task, tasks = self.state.selected, self.state.board.tasks
        if task != NOTHING:
            first = self.drawing.first
            self.view.follow(tasks.starts[task] + first, tasks.ends[task] + first)
        self.redraw()

    def zoom(self, factor: float, at: int | None = None) -> None:
        task, tasks = self.state.selected, self.state.board.tasks
        if at is None:
            at = 0 if task == NOTHING else (tasks.starts[task] + tasks.ends[task]) // 2
        self.view.zoom(factor, at + self.drawing.first)
        self.redraw()

    # The mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Select what is there; a drag may begin."""
        if event.button != 1:
            return
        drawing, tasks = self.drawing, self.state.board.tasks
        row = drawing.row_at(event.y)
        if row == NOTHING or not 0 <= event.x - drawing.gutter < drawing.scale.columns:
            return
        tick, order = drawing.tick_at(event.x), tasks.orders[row] if row < len(tasks.orders) else ()
        task = next((task for task in order if tasks.starts[task] <= tick < tasks.ends[task]), NOTHING)
        if task == NOTHING:
            return
        self.state.select(task)
        self.state.message = ""
        self.is_pressed, self.is_dragging, self._pressed_at = True, False, event.x
        self.capture_mouse()
        self.post_message(self.Changed())

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if not self.is_pressed or (not self.is_dragging and event.x == self._pressed_at):
            return
        self.is_dragging = True
        tick = self.drawing.tick_at(event.x)
        position, limits = drop_position(self.state.board, self.state.selected, tick), self.state.limits
        self.drop = Drop(tick, limits is not None and limits.allow(position))
        self.state.message = self.state.preview(position)
        self.post_message(self.Changed())

    def on_mouse_up(self, event: events.MouseUp) -> None:
        was_dragging = self.is_dragging
        if not self.end_drag() or not was_dragging:
            return
        tick = self.drawing.tick_at(event.x)
        self.state.move_to(drop_position(self.state.board, self.state.selected, tick))
        self.post_message(self.Changed())

    def end_drag(self) -> bool:
        """Let go of what is pressed; return whether something was."""
        was_pressed = self.is_pressed
        self.is_pressed = self.is_dragging = False
        self.drop = None
        self.release_mouse()
        if was_pressed:
            self.redraw()
        return was_pressed

    def _wheel(self, event: events.MouseEvent, steps: int) -> None:
        event.stop()
        if event.ctrl:
            self.zoom(1.25**-steps, self.drawing.tick_at(event.x))
        elif event.shift:
            self.state.step(rows=steps)
        else:
            self.view.pan(PAN * steps)
            self.redraw()
        self.post_message(self.Changed())

    def on_mouse_scroll_down(self, event: events.MouseEvent) -> None:
        self._wheel(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseEvent) -> None:
        self._wheel(event, -1)

    on_mouse_scroll_right, on_mouse_scroll_left = on_mouse_scroll_down, on_mouse_scroll_up


class Kept(Widget):
    """The kept schedules on one scale."""

    def __init__(self, chart: ChartWidget) -> None:
        super().__init__(id="kept")
        self.chart = chart

    def render_lines(self, crop: Any) -> list[Strip]:
        chart, (width, height) = self.chart, self.size
        self.lines = panels.kept_lines(
            chart.state, chart.drawing, width, height, letters=not chart.colour, ascii_only=chart.ascii_only
        )
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        return strip(self, self.lines, y)


class PoolList(Static):
    """The operations that are not placed yet; one is dragged from here to its device."""

    can_focus = True

    class Dropped(Message):
        """The chosen operation was let go at a place on the screen."""

        def __init__(self, x: int, y: int) -> None:
            super().__init__()
            self.x, self.y = x, y

    def __init__(self, pool: Unplaced) -> None:
        super().__init__(id="pool", markup=False)
        self.pool, self.rows = pool, [NOTHING]

    def show(self) -> None:
        lines, rows = panels.pool_lines(self.pool, self.size.height or 16, focused=self.has_focus)
        self.rows = [*rows]
        self.update(Text("\n").join(lines))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        task = self.rows[event.y] if event.y < len(self.rows) else NOTHING
        if task != NOTHING:
            self.pool.chosen = task
            self.capture_mouse()
            self.show()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self.release_mouse()
        self.post_message(self.Dropped(event.screen_x, event.screen_y))

    def on_resize(self) -> None:
        self.show()
