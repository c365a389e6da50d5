"""How fast the HTML page is in a browser, and how large: 131,072 operations on 64 devices, and 64 operations.

    python scripts/bench_page.py

It needs Chromium (its path in PIPESCHED_BROWSER, or `chromium` on the path) and `pip install playwright`. First paint
counts from the navigation to the first frame drawn. Frames and drops are times of script: handling, and drawing in
the next frame.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import pipesched
from pipesched.render.html.page import page

BROWSER = os.environ.get("PIPESCHED_BROWSER") or shutil.which("chromium")
LIMITS = {
    "page of 64 operations, kB": 80,
    "page of 131,072 operations, kB": 400,
    "first paint, ms": 3000,
    "pan, median ms a frame": 50,
    "zoom, median ms a frame": 50,
    "zoomed in, pan, median ms a frame": 50,
    "legal drop, median ms": 50,
    "refused drop, median ms": 50,
}
REPEATS = 15
PAINTED = """new Promise((done) => {
    const wait = () => window.pipesched ? pipesched.ready.then(() => done(performance.now())) : setTimeout(wait, 1);
    wait();
})"""
FRAMES = """async ([kind, count]) => {
    const chart = document.getElementById("chart"), box = chart.getBoundingClientRect(), times = [];
    const fire = (type, x, more = {}) => chart.dispatchEvent(new (type === "wheel" ? WheelEvent : PointerEvent)(type, {
        clientX: box.x + x, clientY: box.y + 35, bubbles: true, cancelable: true, pointerId: 1, ...more }));
    const frame = () => new Promise((done) => requestAnimationFrame((begin) => done(performance.now() - begin)));
    if (kind === "pan") fire("pointerdown", 600);
    for (let at = 0; at < count; at++) {
        const begin = performance.now();
        if (kind === "pan") fire("pointermove", 600 - 9 * at);
        else fire("wheel", 500, { deltaY: at % 2 ? 60 : -90 });
        const handling = performance.now() - begin;
        times.push(handling + await frame()); // asked for after the page's own drawing, in the same frame
    }
    if (kind === "pan") fire("pointerup", 600);
    return times;
}"""
DROPS = """async ([op, places]) => {
    const times = [];
    for (const place of places) {
        await new Promise((done) => setTimeout(done, 700)); // let the tables settle
        const begin = performance.now();
        pipesched.move(op, place);
        const handling = performance.now() - begin;
        times.push(handling + await new Promise((done) => requestAnimationFrame((at) => done(performance.now() - at))));
    }
    return times;
}"""


def schedule(devices: int, microbatches: int) -> pipesched.Outcome:
    """Return 1F1B with two operations a microbatch and device."""
    problem = pipesched.make_problem(devices=devices, microbatches=microbatches, forward=5, backward=10)
    return pipesched.run(problem, "1f1b")


def timed(browser: Any, file: Path) -> dict[str, float]:
    """Return the times of a page in a browser."""
    tab = browser.new_context(offline=True, viewport={"width": 1280, "height": 900}).new_page()
    tab.goto(file.as_uri(), wait_until="commit")
    painted = tab.evaluate(PAINTED)
    tab.wait_for_timeout(2500)
    found = {"first paint, ms": painted}
    tab.evaluate("pipesched.zoom(0, pipesched.makespan() * 0.8)")
    for kind in ("pan", "zoom"):
        found[f"{kind}, median ms a frame"] = statistics.median(tab.evaluate(FRAMES, [kind, 40]))
    tab.evaluate("pipesched.zoom(3000, 6000)")
    found["zoomed in, pan, median ms a frame"] = statistics.median(tab.evaluate(FRAMES, ["pan", 40]))
    tab.evaluate("pipesched.zoom(0, pipesched.makespan())")
    position = tab.evaluate("pipesched.schedules[0].orders[31].indexOf('31F500')")
    places = [position + (1 if turn % 2 == 0 else 0) for turn in range(REPEATS)]
    found["legal drop, median ms"] = statistics.median(tab.evaluate(DROPS, ["31F500", places]))
    found["refused drop, median ms"] = statistics.median(tab.evaluate(DROPS, ["31B500", [0] * REPEATS]))
    return found


def main() -> int:
    """Print the table; 1 when a figure is over its limit."""
    from playwright.sync_api import sync_playwright

    if BROWSER is None:
        print("there is no Chromium: set PIPESCHED_BROWSER")
        return 2
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        small, large = Path(folder) / "small.html", Path(folder) / "large.html"
        small.write_text(page(schedule(4, 8)), encoding="utf-8")
        large.write_text(page(schedule(64, 1024)), encoding="utf-8")
        found = {name: file.stat().st_size / 1000 for name, file in zip(LIMITS, (small, large), strict=False)}
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        found |= timed(browser, large)
        browser.close()
    for name, value in found.items():
        print(f"{name:>36}: {value:7.1f} (at most {LIMITS[name]})")
    return int(any(value > LIMITS[name] for name, value in found.items()))


if __name__ == "__main__":
    raise SystemExit(main())
