"""A real Chromium, without network, that opens pages and lets nothing pass: every console error fails the test.

Set PIPESCHED_BROWSER to the path of a Chromium: then these tests fail where they would be skipped.
Set it to nothing to skip them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pipesched.render.html.page import page as page_of

ROOT = Path(__file__).parents[3]
BROWSER = os.environ.get("PIPESCHED_BROWSER", shutil.which("chromium") or shutil.which("google-chrome"))
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
MEDIA = {"media": "null", "color_scheme": "light", "reduced_motion": "no-preference"}
SAID: list[str] = []  # what fails a test at its end
Open = Callable[..., Any]


def missing(what: str) -> None:
    """Skip, or fail where a browser was promised."""
    if os.environ.get("PIPESCHED_BROWSER"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The browser."""
    if not BROWSER:
        missing("needs Chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("needs playwright")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=[*QUIET, "--disable-sync"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def window(browser: Any) -> Any:
    """A page without network for test after test, as its start takes longer than most of them."""
    page = browser.new_page(offline=True)
    page.set_default_timeout(120_000)  # of a machine that does much else
    page.on("console", lambda message: SAID.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: SAID.append(str(error)))
    page.on("request", lambda request: SAID.append(request.url) if request.url.startswith("http") else None)
    return page


@pytest.fixture
def open_page(window: Any, tmp_path: Path) -> Iterator[Open]:
    """A function that opens the page of a result (or a given HTML), offline, and waits until it is drawn.

    Messages of the console at the level of a warning, errors and requests fail the test at its end.
    """
    files = count()

    def opened(result: object, fragment: str = "", *, width: int = 1280, wait: bool = True, **media: str) -> Any:
        file = tmp_path / f"page{next(files)}.html"
        file.write_text(result if isinstance(result, str) else page_of(result), encoding="utf-8")
        window.set_viewport_size({"width": width, "height": 900})
        window.emulate_media(**MEDIA | media)
        window.goto(f"{file.as_uri()}{fragment}")
        if wait:
            window.evaluate("pipesched.ready")
        return window

    yield opened
    window.mouse.move(0, 0)
    window.goto("about:blank")
    said, SAID[:] = SAID[:], []
    assert said == []
