"""The dialogs. Each closes by Esc, and hands back what was given, or None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from pipesched.errors import ConfigError
from pipesched.explore.app import panels
from pipesched.explore.app.lines import ParameterLines
from pipesched.explore.planning import Choice, FormField
from pipesched.explore.state import KEYS, MOUSE, State
from pipesched.file_formats.registry import SCHEDULE, format_for

LONGEST = 66  # letters of a choice
CLOSE = Binding("escape", "close", "close", show=False)


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
        """Take the one that was clicked."""
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


def keys_text(*, empty: bool) -> RenderableType:
    """Return the help: what keys and mouse do."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", min_width=9)
    for key in KEYS:
        if key.mode != "empty" or empty:
            table.add_row(Text(key.shown), Text(key.text))
    for name, what in MOUSE:
        table.add_row(Text(name), Text(what))
    return table


class Asking(Screen[None]):
    """A screen whose keys open dialogs about a state."""

    state: State
    has_pool = False
    _planned = False  # by the parameter that is typed: then the next plan is the same step

    def show(self, *, follow: bool = True) -> None:
        """Show the state as it is now."""
        raise NotImplementedError

    def leave(self) -> None:
        """End the app."""
        raise NotImplementedError

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
        await self._open(Read(keys_text(empty=self.has_pool)))

    async def action_algorithm(self) -> None:
        def plan(name: str | None) -> None:
            if name is not None:
                self.state.plan(name)
            self.show()

        await self._open(Pick(self.state.planner.choices(), self.state.sheet.version.algorithm), plan)

    async def action_parameters(self) -> None:
        """Change parameters; the chart follows as they are typed."""
        self._planned = False

        await self._open(Parameters(self.state.fields, self.change), lambda _: self.show())

    def change(self, name: str, text: str) -> str:
        """Plan with what was typed for a parameter, as one step with what was typed before; return what is wrong."""
        done = self.state.plan_typed(name, text, again=self._planned)
        self._planned = self._planned or done
        self.show()
        return "" if done else self.state.message

    async def action_save(self) -> None:
        """Ask for a path, and whether an existing file may go."""

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
