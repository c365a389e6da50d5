"""The parameters as lines to type into: beside the chart, and in the dialog of small terminals."""

from __future__ import annotations

from asyncio import Event, wait_for
from collections.abc import Iterator, Sequence

from textual import events
from textual.containers import Vertical
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Input, Label

from pipesched.explore.planning import FormField

LONGEST_WAIT = 5.0  # seconds for a line to take its keys


class ParameterLines(Vertical):
    """A label and a line for each parameter; what is typed is told at every key."""

    class Typed(Message):
        """A parameter has another text."""

        def __init__(self, name: str, text: str) -> None:
            super().__init__()
            self.name, self.text = name, text

    class Turned(Message):
        """Another line took the focus, or none."""

    def __init__(self, fields: Sequence[FormField], algorithms: Sequence[str] = (), *, id: str | None = None) -> None:  # noqa: A002  Textual's word
        super().__init__(id=id)
        self._fields, self._algorithms = [*fields], [*algorithms]

    def compose(self) -> Iterator[Widget]:
        for field in self._fields:
            yield Label(field.label, markup=False)
            names = SuggestFromList(self._algorithms, case_sensitive=False) if field.name == "algorithm" else None
            yield Line(field, names)

    @property
    def lines(self) -> list[Line]:
        return [*self.query(Line)]

    @property
    def is_open(self) -> bool:
        """Whether one of the lines takes the keys."""
        return any(line.has_focus for line in self.lines)

    def show(self, fields: Sequence[FormField]) -> None:
        """Show other values, but not in the line that is being typed."""
        same = [field.name for field in fields] == [field.name for field in self._fields]
        self._fields = [*fields]
        if not same:
            self.refresh(recompose=True)
            return
        for line, field in zip(self.lines, fields, strict=True):
            if not line.has_focus:
                line.put(field.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        line = event.input
        if isinstance(line, Line) and event.value.strip() != line.told:
            line.told = event.value.strip()
            self.post_message(self.Typed(line.about, line.told))

    async def settle(self) -> None:
        """Wait until the open line has taken all keys that reached it."""
        for line in self.lines:
            if line.has_focus:
                done = Event()
                line.call_later(done.set)
                await wait_for(done.wait(), LONGEST_WAIT)

    def on_key(self, event: events.Key) -> None:
        lines = self.lines
        place = next((number for number, line in enumerate(lines) if line.has_focus), None)
        steps = {"up": -1, "down": 1}.get(event.key)
        if place is not None and steps is not None:
            event.stop()
            lines[(place + steps) % len(lines)].focus()

    def on_descendant_focus(self) -> None:
        self.post_message(self.Turned())

    def on_descendant_blur(self) -> None:
        self.post_message(self.Turned())


class Line(Input):
    """The line of one parameter; `told` is the text that was planned with, or tried."""

    def __init__(self, field: FormField, names: SuggestFromList | None) -> None:
        name = field.name.replace(" ", "_")
        super().__init__(field.value, id=name, placeholder="none", select_on_focus=True, compact=True, suggester=names)
        self.about, self.told = field.name, field.value

    def put(self, text: str) -> None:
        """Show another text, which is told to nobody."""
        self.told = text
        if self.value != text:
            self.value = text
