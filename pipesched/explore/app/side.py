"""What stands beside the chart and listens or draws: the kept schedules, and the pool."""

from __future__ import annotations

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
from pipesched.explore.app.chart import ChartWidget
from pipesched.explore.unplaced import Unplaced


class Kept(Widget):
    """The kept schedules on one scale."""

    def __init__(self, chart: ChartWidget) -> None:
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
        line = self.lines[y] if y < len(self.lines) else []
        return Strip([*line, Segment("")]).adjust_cell_length(self.size.width).apply_style(self.rich_style)


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
        """Choose, and take along."""
        task = self.rows[event.y] if event.y < len(self.rows) else NOTHING
        if task != NOTHING:
            self.pool.chosen = task
            self.capture_mouse()
            self.show()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Place it on the device where it is let go."""
        self.release_mouse()
        self.post_message(self.Dropped(event.screen_x, event.screen_y))

    def on_resize(self) -> None:
        self.show()
