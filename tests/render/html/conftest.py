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
def window(browser: Any) -> tuple[Any, list[str]]:
    """A page for test after test, as its start takes longer than most of them; and what fails them, as it is said."""
    return new_window(browser)


def new_window(browser: Any, **more: Any) -> tuple[Any, list[str]]:
    """A page without network, and where its warnings and errors, and all requests, are added."""
    context = browser.new_context(offline=True, **more)
    context.set_default_timeout(120_000)  # of a machine that does much else
    page, said = context.new_page(), list[str]()
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
    return page, said


@pytest.fixture
def open_page(browser: Any, window: tuple[Any, list[str]], tmp_path: Path) -> Iterator[Open]:
    """A function that opens the page of a result (or a given HTML), offline, and waits until it is drawn.

    It takes the place of the page before, or has a window of its own if that needs other rights.
    Messages of the console at the level of a warning, errors and requests fail the test at its end.
    """
    windows = [window]
    files = count()

    def opened(
        result: object,
        fragment: str = "",
        *,
        width: int = 1280,
        wait: bool = True,
        color_scheme: str = "light",
        reduced_motion: str = "no-preference",
        **more: Any,
    ) -> Any:
        file = tmp_path / f"page{next(files)}.html"
        file.write_text(result if isinstance(result, str) else page_of(result), encoding="utf-8")
        if more:
            windows.append(new_window(browser, **more))
        page, _ = windows[-1 if more else 0]
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(media="null", color_scheme=color_scheme, reduced_motion=reduced_motion)
        page.goto(f"{file.as_uri()}{fragment}")
        if wait:
            page.evaluate("pipesched.ready")
        return page

    yield opened
    for page, _ in windows[1:]:
        page.context.close()
    page, said = window
    page.mouse.move(0, 0)
    page.goto("about:blank")
    heard = [text for _, texts in windows for text in texts]
    said.clear()
    assert heard == []
