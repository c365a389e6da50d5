"""The app in a real terminal: keys, a drag of the mouse, another size, no colours, no room, and what is left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"), pytest.mark.slow]
PATIENCE = 20.0  # seconds until something must have been drawn


class Terminal:
    """A tmux of its own with one window."""

    def __init__(self, folder: Path) -> None:
        self.socket = str(folder / "tmux")
        self.folder = folder

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-S", self.socket, "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=20).stdout

    def start(self, command: str, width: int = 80, height: int = 24, env: str = "") -> None:
        inner = f"cd '{self.folder}'; env {env} '{sys.executable}' -m pipesched {command}; echo left $?; sleep 60"
        root = Path(__file__).parents[2]
        kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TMUX")}
        words = ["tmux", "-S", self.socket, "-f", "/dev/null", "new-session", "-d"]
        words += ["-x", str(width), "-y", str(height), inner]
        subprocess.run(words, env={**kept, "PYTHONPATH": str(root)}, check=True, timeout=20)

    def screen(self, *, escapes: bool = False) -> str:
        return self.tmux("capture-pane", "-p", *(["-e"] if escapes else []))

    def until(self, holds: Callable[[str], bool]) -> str:
        """Wait for a screen of which something holds, and return it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            shown = self.screen()
            if holds(shown):
                return shown
            time.sleep(0.05)
        raise AssertionError(self.screen())

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def mouse(self, button: int, x: int, y: int, *, up: bool = False) -> None:
        """Send what a terminal sends for the mouse; x and y count from 1."""
        self.tmux("send-keys", "-l", f"\033[<{button};{x};{y}{'m' if up else 'M'}")


@pytest.fixture
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    made = Terminal(tmp_path_factory.mktemp("t"))
    yield made
    made.tmux("kill-server")


def test_keys_a_drag_and_another_size(terminal: Terminal) -> None:
    terminal.start("explore interleaved", env="COLUMNS=80 LINES=24")
    shown = terminal.until(lambda text: "makespan 285" in text and "q quit" in text)
    row = next(number for number, line in enumerate(shown.splitlines(), 1) if line.startswith("device 0"))
    column = shown.splitlines()[row - 1].index("0123") + 1
    terminal.mouse(0, column + 1, row)
    terminal.mouse(32, column + 3, row)
    terminal.mouse(32, column + 4, row)
    terminal.until(lambda text: "0F1 to position" in text)
    terminal.mouse(0, column + 4, row, up=True)
    terminal.until(lambda text: "0F1 from position 1 to" in text and "edited" in text)
    terminal.keys("u")
    terminal.until(lambda text: "undone" in text)
    terminal.tmux("resize-window", "-x", "200", "-y", "50")
    wide = terminal.until(lambda text: "idle time" in text and "microbatches" in text)
    assert len(wide.splitlines()) > 40
    terminal.tmux("resize-window", "-x", "20", "-y", "24")
    terminal.until(lambda text: "too small" in text)
    terminal.tmux("resize-window", "-x", "80", "-y", "24")
    terminal.until(lambda text: "makespan 285" in text)
    terminal.keys("q")
    assert "makespan" not in terminal.until(lambda text: "left 0" in text)


def test_no_color_leaves_letters_and_no_colours(terminal: Terminal) -> None:
    terminal.start("explore interleaved", env="NO_COLOR=1")
    terminal.until(lambda text: "FFFF" in text)
    terminal.keys("p")
    terminal.until(lambda text: "*" in text)
    terminal.keys("a")
    terminal.until(lambda text: "zb-h1" in text)
    codes = terminal.screen(escapes=True).split("\033[")[1:]
    numbers = {part for code in codes if "m" in code for part in code.split("m")[0].split(";")}
    assert numbers <= {"", "0", "1", "2", "3", "4", "7", "10", "22", "39", "49"}


def test_an_error_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    """The alternate screen is left, the mouse is off, the exit code is 1."""
    broken = "import pipesched.explore.state as s\n"
    broken += "def undo(self): raise RuntimeError('broken on purpose')\ns.State.undo = undo\n"
    (terminal.folder / "sitecustomize.py").write_text(broken)
    terminal.start("explore interleaved", env=f"PYTHONPATH={terminal.folder}:{Path(__file__).parents[2]}")
    terminal.until(lambda text: "q quit" in text)
    assert terminal.tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag}").strip() == "1 1"
    terminal.keys("u")
    terminal.until(lambda text: "left 1" in text)
    assert terminal.tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag}").strip() == "0 0"
    assert "broken on purpose" in terminal.screen()


def test_what_is_typed_at_once_reaches_the_dialog(terminal: Terminal) -> None:
    terminal.start("explore interleaved")
    terminal.until(lambda text: "q quit" in text)
    terminal.keys("a", "z", "b", "-", "v", "Enter")
    terminal.until(lambda text: text.startswith("zb-v"))
    terminal.keys("/", "2", "I", "3", "Enter")
    terminal.until(lambda text: "2I3          device" in text)
