"""The dialogs `Ask`, `Confirm`, `Pick`, `Parameters`, `Read`. Each closes by Esc, and returns what was given, or None.

Parameters are lines to type into: beside the chart, and in the dialog of small terminals.
"""

from __future__ import annotations

from asyncio import Event, wait_for
from collections.abc import Callable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from pipesched.explore.board import Choice, FormField

LONGEST = 66  # letters of a choice
CLOSE = Binding("escape", "close", "close", show=False)
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

    on_descendant_blur = on_descendant_focus


class Line(Input):
    """The line of one parameter; `told` is the text that was planned with, or tried."""

    def __init__(self, field: FormField, names: SuggestFromList | None) -> None:
        name = field.name.replace(" ", "_")
        super().__init__(field.value, id=name, placeholder="none", select_on_focus=True, compact=True, suggester=names)
        self.about, self.told = field.name, field.value

    def put(self, text: str) -> None:
        self.told = text
        if self.value != text:
            self.value = text


class Dialog(ModalScreen[str | None]):
    """A dialog that Esc closes."""

    BINDINGS = [CLOSE]  # noqa: RUF012  Textual's way

    def action_close(self) -> None:
        self.dismiss(None)


class Question(Dialog):
    """A question, and the widgets below it."""

    def __init__(self, question: str, *below: Input) -> None:
        super().__init__()
        self.question, self.below = question, below

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self.question, markup=False)
            yield from self.below


class Ask(Question):
    """A question that is answered by a line of text."""

    def __init__(self, question: str) -> None:
        super().__init__(question, Input(select_on_focus=False, compact=True))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


class Confirm(Question):
    """A question that `y` answers yes, and any other key no."""

    def on_key(self, event: events.Key) -> None:
        if event.key != "escape":
            self.dismiss("y" if event.key == "y" else None)


class Pick(Dialog):
    """A list that is filtered by typing; an exact name comes first, Enter takes the marked one."""

    def __init__(self, choices: Sequence[Choice], current: str) -> None:
        super().__init__()
        self.choices, self.current = choices, current

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog list"):
            yield Input(placeholder="type to filter", compact=True)
            yield OptionList(compact=True)

    def on_mount(self) -> None:
        self._fill("")

    def _fill(self, text: str) -> None:
        wanted = text.strip().lower()
        found = [choice for choice in self.choices if wanted in choice.name.lower()]
        found.sort(key=lambda choice: (choice.name.lower() != wanted, not choice.name.lower().startswith(wanted)))
        listed = self.query_one(OptionList)
        listed.clear_options()
        width = max((len(choice.name) for choice in found), default=0) + 2
        for choice in found:
            text = f"{choice.name.ljust(width)}{choice.note}"
            text = text if len(text) <= LONGEST else f"{text[: LONGEST - 2]}.."
            listed.add_option(Option(Text(text), id=choice.name))
        names = [choice.name for choice in found]
        if found:
            listed.highlighted = names.index(self.current) if not wanted and self.current in names else 0

    def on_input_changed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    def on_key(self, event: events.Key) -> None:
        """Move in the list while the line has the focus."""
        key, listed = event.key, self.query_one(OptionList)
        if key == "down":
            listed.action_cursor_down()
        elif key == "up":
            listed.action_cursor_up()

    def on_input_submitted(self) -> None:
        listed = self.query_one(OptionList)
        if listed.highlighted is not None:
            self.dismiss(listed.get_option_at_index(listed.highlighted).id)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)


class Parameters(Dialog):
    """The parameters, one line each; `change` takes name and text as they are typed, and says what is wrong."""

    def __init__(self, fields: Sequence[FormField], change: Callable[[str, str], str]) -> None:
        super().__init__()
        self.fields, self.change = fields, change

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog side"):
            yield Label("Up, Down; Enter closes")
            yield ParameterLines(self.fields)
            yield Label("", id="wrong", markup=False)

    def on_parameter_lines_typed(self, event: ParameterLines.Typed) -> None:
        self.query_one("#wrong", Label).update(self.change(event.name, event.text))

    def on_input_submitted(self) -> None:
        self.dismiss(None)


class Read(Dialog):
    """A text to read, longer than the screen perhaps."""

    BINDINGS = [CLOSE, Binding("q,enter,w,question_mark", "close", show=False)]  # noqa: RUF012  Textual's way

    def __init__(self, text: RenderableType) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog page"):
            yield Static(self.text, markup=False)
