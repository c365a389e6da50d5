"""Take the README's picture of a page in a browser: three schedules of the default model, one operation selected.

    python scripts/picture.py [BROWSER]

Needs a Chromium, by default the one on the path.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import pipesched

ALGORITHMS = ("1f1b", "interleaved", "zb-v")
PICTURE = Path(__file__).parent.parent / "docs" / "page.png"
SIZE = {"width": 1200, "height": 716}


def main() -> int:
    """Write the picture; 1 without a browser."""
    from playwright.sync_api import sync_playwright

    browser = sys.argv[1] if len(sys.argv) > 1 else shutil.which("chromium")
    if browser is None:
        print("there is no chromium on the path; name one", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "page.html"
        pipesched.write(pipesched.compare(pipesched.load(), ALGORITHMS), page)
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        view = opened.new_context(viewport=SIZE, offline=True).new_page()
        view.goto(page.as_uri())
        view.evaluate("pipesched.ready.then(() => pipesched.select('3B2'))")
        view.wait_for_timeout(500)  # the next frame draws the selection
        view.screenshot(path=PICTURE)
        opened.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
