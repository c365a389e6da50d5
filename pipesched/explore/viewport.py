"""The part of a chart that is seen: a window of time, and the first row."""

from __future__ import annotations

from pipesched.render.timescale import Window

NEARLY = 1.02  # of a window: what shows that much less than all shows all
CLOSEST = 4  # ticks that a window shows at least


class Viewport:
    """A window of time of a schedule that ends at `whole`, in ticks; `top` is the first row that is seen."""

    def __init__(self, whole: int) -> None:
        self.whole = max(whole, 1)
        self.window = Window(0, self.whole)
        self.top = 0

    @property
    def is_all(self) -> bool:
        """Whether all of the time is seen."""
        return self.window == (0, self.whole)

    def resize(self, whole: int) -> None:
        """Take a schedule of another length: a window that showed all still does."""
        was_all, self.whole = self.is_all, max(whole, 1)
        if was_all:
            self.show_all()
        else:
            self._put(self.window.start, self.window.end - self.window.start)

    def show_all(self) -> None:
        """See all of the time."""
        self.window = Window(0, self.whole)

    def zoom(self, factor: float, at: int) -> None:
        """See 1/factor as much, so that the tick `at` stays where it is."""
        start, end = self.window
        length = max(round((end - start) / factor), min(CLOSEST, self.whole))
        if NEARLY * length >= self.whole:
            self.show_all()
            return
        share = (at - start) / (end - start)
        self._put(round(at - share * length), length)

    def pan(self, share: float) -> None:
        """See so much of the window's length later, of a negative share earlier."""
        length = self.window.end - self.window.start
        self._put(self.window.start + round(share * length), length)

    def around(self, start: int, end: int) -> None:
        """See a time with as much before and behind it, four times over."""
        length = min(max(9 * (end - start), CLOSEST), self.whole)
        self._put((start + end - length) // 2, length)

    def follow(self, start: int, end: int) -> None:
        """Pan as little as needed to see a time."""
        length = self.window.end - self.window.start
        if start < self.window.start or end - start >= length:
            self._put(start, length)
        elif end > self.window.end:
            self._put(end - length, length)

    def _put(self, start: int, length: int) -> None:
        length = min(length, self.whole)
        first = min(max(start, 0), self.whole - length)
        self.window = Window(first, first + length)
