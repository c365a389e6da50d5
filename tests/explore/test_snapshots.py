"""Seven pictures of the app. PIPESCHED_SNAPSHOTS=write writes them anew; then look at them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from pipesched.explore.app.app import ExploreApp
from tests.explore.conftest import app_of, pool_of, ran, state_of

FOLDER = Path(__file__).parent / "snapshots"


def empty_app() -> ExploreApp:
    pool = pool_of()
    return app_of(pool.state, pool)


CASES: dict[str, tuple[Callable[[], ExploreApp], tuple[int, int], str]] = {
    "selected-80x24": (lambda: app_of(state_of()), (80, 24), "down right right"),
    "marks-80x24": (lambda: app_of(state_of()), (80, 24), "p d m down right right >"),
    "letters-80x24": (lambda: app_of(state_of(), colour=False), (80, 24), "p down right"),
    "empty-80x24": (empty_app, (80, 24), "enter enter enter enter"),
    "algorithms-80x24": (lambda: app_of(state_of()), (80, 24), "a z b"),
    "short-60x24": (lambda: app_of(state_of("1f1b", devices=2, stages=2, forward=[1, 9], backward=20)), (60, 24), "d"),
    "wide-200x50": (lambda: app_of(state_of()), (200, 50), "c right >"),
}


def picture(app: ExploreApp, size: tuple[int, int], keys: str) -> str:
    """The screen after some keys as SVG, without the numbers that Rich makes up, and without the cursor's blinking."""

    async def run() -> str:
        async with app.run_test(size=size) as pilot:
            await pilot.press(*keys.split())
            for line in app.screen.query(Input):
                line.cursor_blink = False
            return await at_rest(pilot)

    return numbered(ran(run()))


async def at_rest(pilot: Pilot[None]) -> str:
    """The screen once it changes no more."""
    found = ""
    while True:
        await pilot.pause(0.03)
        before, found = found, pilot.app.export_screenshot()
        if numbered(before) == numbered(found):
            return found


def numbered(svg: str) -> str:
    """A picture without the numbers that Rich makes up."""
    return re.sub(r"terminal-\d+-", "terminal-", svg)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_picture_is_the_same(name: str) -> None:
    make, size, keys = CASES[name]
    found = picture(make(), size, keys)
    path = FOLDER / f"{name}.svg"
    if os.environ.get("PIPESCHED_SNAPSHOTS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8"), f"{path} is another picture; PIPESCHED_SNAPSHOTS=write writes it"
