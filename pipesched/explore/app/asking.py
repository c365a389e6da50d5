"""The keys that open a dialog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from textual.screen import Screen
from textual.widgets import Input

from pipesched.errors import ConfigError
from pipesched.explore.app import panels
from pipesched.explore.app.dialogs import Ask, Confirm, Dialog, Parameters, Pick, Read, keys_text
from pipesched.explore.state import State
from pipesched.file_formats.registry import SCHEDULE, format_of, formats_that_hold


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
            try:
                if not _exists(path.strip()):
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
        def end(answer: str | None) -> None:
            if answer == "y":
                self.leave()

        if self.state.is_unsaved:
            await self._open(Confirm("leave without saving? (y/n)"), end)
        else:
            self.leave()


def _exists(path: str) -> bool:
    """Return whether a file would be replaced. Raises ConfigError for a path without a format."""
    if not path:
        raise ConfigError("give the path of a file, such as mine.json")
    format_of(path, formats_that_hold(SCHEDULE))
    return Path(path).expanduser().exists()
