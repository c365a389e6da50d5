"""The app: its look, and how it runs."""

from __future__ import annotations

import os
from dataclasses import replace

from textual.app import App
from textual.theme import BUILTIN_THEMES

from pipesched.explore.app.main_screen import MainScreen
from pipesched.explore.state import State, Unplaced

CSS = """
MainScreen { layout: vertical; }
#small { display: none; }
MainScreen.small #small { display: block; }
MainScreen.small #all { display: none; }
#title, #message, #footer, #code { height: 1; }
#title, #message, #footer, #code, #details { text-wrap: nowrap; text-overflow: ellipsis; }
#title, #footer { text-style: reverse; }
#details { height: 5; }
MainScreen.low #details { height: 2; }
#middle { height: 1fr; }
#charts { width: 1fr; }
#chart { height: 1fr; }
#kept, #parameters, #reasons, #code { display: none; }
MainScreen.wide.compared #kept { display: block; height: 1fr; }
MainScreen.wide #parameters { display: block; width: 22; padding: 0 1; }
MainScreen.wide #reasons { display: block; width: 46; padding: 0 1; scrollbar-size-vertical: 1; }
ParameterLines { height: auto; overflow-y: auto; }
#parameters { height: 100%; }
ParameterLines Label { text-style: dim; }
ParameterLines Line { text-style: bold; }
ParameterLines Line:focus { text-style: underline; }
MainScreen.empty #code { display: block; }
#pool { width: 16; height: 100%; padding: 0 1; }
.dialog { width: 60; max-width: 90%; height: auto; max-height: 90%; border: round ansi_default; padding: 0 1; }
.list { width: 76; height: 18; }
.side { width: 34; }
.page { width: 92%; max-width: 100; height: 90%; }
Dialog { align: center middle; background: transparent; }
Parameters { align: left top; }
OptionList > .option-list--option-highlighted { text-style: bold reverse; }
Input { border: none; height: 1; }
Input > .input--cursor, Input > .input--selection {
    background: ansi_default; color: ansi_default; text-style: reverse;
}
Input > .input--placeholder, Input > .input--suggestion { text-style: dim; }
OptionList { height: 1fr; border: none; }
"""

# The colours of the terminal, dark or light; only charts have their own, as `run` prints them.
DARK = BUILTIN_THEMES["ansi-dark"]
OWN = ("ansi-background", "ansi-foreground", "block-cursor-foreground", "block-cursor-background")
THEME = replace(DARK, name="terminal", variables={**DARK.variables, **dict.fromkeys(OWN, "ansi_default")})


class ExploreApp(App[None]):
    """Schedules under edit, in a terminal."""

    CSS = CSS
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
