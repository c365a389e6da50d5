"""The page in a real browser: offline, under its own security policy, by mouse, by keys, by link and by its API."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched.core.reasons import LATE_PARTS, legal_places
from pipesched.documents.schedule import parse
from pipesched.pipeline.check.check import checked
from pipesched.render.explanation import gap_words
from pipesched.render.html.page import page as page_of
from pipesched.render.palette import colour_of, place_of
from pipesched.results.timed_moves import timed_tasks
from tests.analysis.traces_of_runs import replayed, torch_traces
from tests.examples import at_night_but
from tests.render.html.conftest import ROOT, Open, missing
from tests.render.html.engine import document_of
from tests.stepped import forwards, sized, sliced

pytestmark = pytest.mark.slow

PROBLEM = pipesched.make_problem(
    devices=4, stages=8, microbatches=8, forward=5, backward=10, time_unit="ms", name="mine"
)
INTERLEAVED = pipesched.run(PROBLEM, "interleaved")
ONE = pipesched.run(PROBLEM, "1f1b")
THREE = pipesched.compare(PROBLEM, ["naive", "1f1b", "interleaved", "dualpipe"])
OFFLOADED = pipesched.run(
    pipesched.make_problem(devices=4, microbatches=8, forward=5, backward=10, offload=3, budget=3), "1f1b", offload=2
)
PAIRS = pipesched.run(pipesched.make_problem(devices=4, microbatches=8, forward=5, backward=10, overlap=13), "dualpipe")
RANKS: dict[str, Any] = {"devices": 3, "stages": 6, "microbatches": 6, "forward": 1, "backward": 2, "p2p": 0.25}
QUEUED = pipesched.run(pipesched.make_problem(**RANKS, messages="rank", receive=1), "interleaved")
SHOWN: dict[str, Any] = {
    "interleaved": INTERLEAVED,
    "queued": QUEUED,
    "1f1b": ONE,
    "offload": OFFLOADED,
    "pairs": PAIRS,
}
SHOWN |= {"comparison": THREE, "explanation": pipesched.explain(INTERLEAVED), "sized": sized(p2p=1)}
SHOWN |= {"sliced": sliced(), "forwards": forwards(3)}


def api(page: Any, call: str) -> Any:
    """What window.pipesched says."""
    return page.evaluate(f"pipesched.{call}")


def until(page: Any, condition: str) -> None:
    """Wait until a condition holds (playwright's own way would need the right to evaluate text)."""
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def drag(page: Any, op: str, to_x: float, *, dy: float = 0, release: bool = True) -> None:
    """Drag an operation by mouse until the pointer is at `to_x`."""
    box = api(page, f"place({op!r})")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move((x + to_x) / 2, y + dy)
    page.mouse.move(to_x, y + dy)
    if release:
        page.mouse.up()


def state(page: Any) -> Any:
    """What a refused drop must leave: orders, numbers, hash."""
    return page.evaluate("[pipesched.schedules, location.hash, makespan.textContent, bubble.textContent]")


def legal(outcome: pipesched.Outcome) -> dict[str, tuple[int, int, int]]:
    """The device's position, and the first and last legal one, of each slot."""
    tasks, found = timed_tasks(outcome.schedule), {}
    for order in outcome.schedule.plan.orders:
        for position, (task, places) in enumerate(zip(order, legal_places(tasks, order), strict=True)):
            found[str(outcome.schedule.plan.slot(task))] = (position, *places)
    return found


@pytest.mark.parametrize("result", SHOWN.values(), ids=[*SHOWN])
def test_numbers(open_page: Open, result: Any) -> None:
    """Every schedule has Python's numbers, orders and document; the page verifies them, offline."""
    page = open_page(result)
    outcomes = [result]
    if isinstance(result, pipesched.Comparison):
        outcomes = [entry.outcome for entry in result if entry.outcome is not None]
        assert [one["name"] for one in api(page, "schedules")] == [entry.label for entry in result if entry.applicable]
    elif not isinstance(result, pipesched.Outcome):
        outcomes = [INTERLEAVED]
    assert page.inner_text("#verified").startswith("Verified")
    for index, outcome in enumerate(outcomes):
        ours = document_of(outcome)
        assert api(page, f"document({index})") == ours
        assert api(page, f"times({index})") == {"devices": ours["devices"], "transfers": ours.get("transfers", [])}
        assert api(page, f"makespan({index})") == outcome.schedule.makespan
        assert api(page, f"bubble({index})") == outcome.schedule.bubble
        shown = api(page, f"schedules[{index}]")
        assert shown["orders"] == [[entry["op"] for entry in row] for row in ours["devices"]]
        assert (shown["makespan"], shown["edited"]) == (outcome.schedule.makespan, False)
        assert outcome.algorithm in shown["name"]
    first = outcomes[0].schedule
    assert re.match(rf"{first.makespan}\b", page.inner_text("#makespan"))
    assert page.inner_text("#bubble") == f"{first.bubble:.2%}"


def test_policy(open_page: Open) -> None:
    """The page carries the strict policy, and user text is text."""
    name = "</script><img src=x onerror=alert(1)><!-- & ]]>"
    evil = pipesched.make_problem(devices=2, microbatches=2, name=name, time_unit="<b>", unit="</script>")
    page = open_page(pipesched.run(evil, "1f1b"))
    policy = page.get_attribute("meta[http-equiv]", "content")
    assert policy == (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:;"
        " base-uri 'none'; form-action 'none'"
    )
    assert name in page.inner_text("h1")
    assert page.locator("img").count() == 0
    assert api(page, "document().problem.name") == name


def test_legal_drags(open_page: Open) -> None:
    """By mouse a slot lands before the first slot whose middle is right of the pointer; numbers are Python's."""
    page = open_page(ONE)
    position, first, last = legal(ONE)["1F3"]
    assert (position, first, last) == (4, 0, 6)
    order = api(page, "schedules[0].orders[1]")
    before = api(page, f"place({order[6]!r})")
    drag(page, "1F3", before["x"] + before["width"] / 2 + 1, dy=60)
    moved = [op for op in order if op != "1F3"]
    moved.insert(6, "1F3")
    assert api(page, "schedules[0].orders[1]") == moved
    edited = pipesched.plan(ONE.problem, api(page, "schedules[0].orders"))
    schedule = pipesched.schedule_plan(ONE.problem, edited)
    assert api(page, "makespan()") == schedule.makespan
    more = schedule.makespan - ONE.schedule.makespan
    assert page.inner_text("#makespan") == f"{schedule.makespan} ms (+{more})"
    assert page.inner_text("#live").startswith("1F3 moved from position 4 to 6 on device 1")
    assert page.evaluate("location.hash") == "#s=0:1F3&m=0:1F3@6"
    left = parse(json.dumps(api(page, "document()")), "page")
    assert checked(left.schedule).makespan == schedule.makespan
    assert api(page, "undo()")
    assert api(page, "schedules[0].orders[1]") == order
    assert page.inner_text("#makespan") == f"{ONE.schedule.makespan} ms"
    assert not api(page, "undo()")
    assert api(page, "redo()")
    assert api(page, "schedules[0].orders[1]") == moved
    assert not api(page, "redo()")


def test_refused_drags(open_page: Open) -> None:
    """An illegal drop changes nothing, and says what blocks it; Escape cancels; little moves are clicks."""
    page = open_page(ONE)
    before = state(page)
    first = api(page, "place('3F2')")
    drag(page, "3B2", first["x"] - 2)
    assert state(page) == before
    assert page.inner_text("#live") == "3B2 stays at position 5: 3B2 waits for 3F2."
    first = api(page, "place('1F3')")
    drag(page, "1B3", first["x"])
    assert state(page) == before
    assert page.inner_text("#live").endswith("1B3 waits for 1F4 through stage 2.")
    drag(page, "0F5", 5, release=False)
    page.keyboard.press("Escape")
    page.mouse.up()
    assert state(page) == before
    assert "cancelled" in page.inner_text("#live")
    box = api(page, "place('0F5')")
    drag(page, "0F5", box["x"] + box["width"] / 2 + 3)
    assert api(page, "selected()") == {"schedule": 0, "op": "0F5", "position": 7}
    assert page.inner_text("#live").startswith("0F5, ")
    assert not api(page, "undo()")


@pytest.mark.parametrize("outcome", [PAIRS, OFFLOADED], ids=["pairs", "offload"])
def test_moves_by_the_api(open_page: Open, outcome: pipesched.Outcome) -> None:
    """Every slot may stand exactly where Python says; a refusal changes nothing and names the slot."""
    page = open_page(outcome)
    makespan = outcome.schedule.makespan
    size = {op: len(order) for order in api(page, "schedules[0].orders") for op in order}
    places = dict(list(legal(outcome).items())[::3])
    asked = [(op, to) for op, (at, first, last) in places.items() for to in {first - 1, last + 1, first, last, at}]
    moved = page.evaluate("all => all.map(([op, to]) => [pipesched.move(op, to), pipesched.undo()])", asked)
    for (op, to), (said, undone) in zip(asked, moved, strict=True):
        position, first, last = places[op]
        assert said["ok"] == (first <= to <= last), (op, to)
        assert undone == (said["ok"] and to != position)
        if said["ok"]:
            assert said["reason"] is None
        else:
            assert op in said["reason"] or not 0 <= to < size[op]
            assert said["makespan"] == makespan
    assert api(page, "makespan()") == makespan
    assert not api(page, "schedules[0].edited")


def test_slices(open_page: Open) -> None:
    """They are named as everywhere, each has a shade of its own, and the legend says so."""
    page = open_page(sliced())
    assert "lighter: later slices of a microbatch" in page.inner_text("#legend")
    assert api(page, "select('2F3.1')")
    until(page, "details.textContent.includes('forward of microbatch 3.1 on stage 2')")
    assert not api(page, "select('2F3')")
    assert not api(page, "select('2F3.4')")
    colours = page.evaluate(
        """() => {
          const places = [0, 1, 2, 3].map(k => pipesched.place(`3F1.${k}`)), box = paint.getBoundingClientRect();
          const { width, height: high } = paint, ratio = width / box.width;
          const image = paint.getContext("2d").getImageData(0, 0, width, high);
          return places.map(({ x, y, height }) => {
            const column = Math.round((x - box.left + 3) * ratio), row = Math.round((y - box.top + height / 4) * ratio);
            return [...image.data.slice(4 * (row * width + column)).slice(0, 3)];
          });
        }"""
    )
    expected = [colour_of(1, "F", place=place_of(part, 4)) for part in range(4)]
    assert [tuple(colour) for colour in colours] == expected


def test_what_is_not_there(open_page: Open) -> None:
    """Unknown operations are absent; transfers keep their order; a pair has the names of its parts."""
    page = open_page(OFFLOADED)
    assert api(page, "select('9F9')") is False
    assert api(page, "select('nonsense')") is False
    assert api(page, "place('9F9')") is None
    assert api(page, "selected()") is None
    assert api(page, "move('9F9', 0)")["ok"] is False
    refused = api(page, "move('0O0', 1)")
    assert not refused["ok"]
    assert "transfer" in refused["reason"]
    assert api(page, "select('0L1')")
    assert page.inner_text("#live").startswith("0L1, ")
    page = open_page(PAIRS)
    pair = next(op for op in api(page, "schedules[0].orders")[1] if op.startswith("("))
    forward, backward = pair[1:].split(")")[0].split(";")
    for name in (pair, forward, backward):
        assert api(page, f"select({name!r})")
        assert api(page, "selected()")["op"] == pair


def test_keys(open_page: Open) -> None:
    """Everything that a mouse does, keys do; each selection and move is said in a sentence that begins with it."""
    page = open_page(ONE)
    page.focus("#chart")

    def live() -> str:
        return str(page.inner_text("#live"))

    page.keyboard.press("ArrowRight")
    assert live().startswith("0F0, device 0 position 0, runs from 0 to 10, slack 0")
    page.keyboard.press("l")
    assert live().startswith("0F1, ")
    page.keyboard.press("ArrowDown")
    assert live().startswith("1F0, ")
    page.keyboard.press("Shift+>")
    assert live().startswith("1F0 moved from position 0 to 1")
    page.keyboard.press("u")
    assert live().startswith("1F0 is at position 0")
    page.keyboard.press("Control+r")
    assert live().startswith("1F0 is at position 1")
    page.keyboard.press("u")
    page.keyboard.press("/")
    page.keyboard.type("3B7")
    page.keyboard.press("Enter")
    assert api(page, "selected()")["op"] == "3B7"
    for key, words in {
        "]": "idles from",
        "{": "idles from",
        "w": "3B7 waits for ",
        "x": "No single move shortens it",
    }.items():
        page.keyboard.press(key)
        assert words in live()
    page.keyboard.press("f")
    assert "t=" in page.evaluate("location.hash")
    page.keyboard.press("0")
    assert "t=" not in page.evaluate("location.hash")
    page.keyboard.press("+")
    page.keyboard.press("Shift+ArrowRight")
    for key in ("p", "d", "m", "-"):
        page.keyboard.press(key)
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("Escape")
    assert not page.is_visible("#help")
    page.keyboard.press("c")
    assert [one["name"] for one in api(page, "schedules")] == ["1f1b mine", "1f1b mine (kept)"]
    page.keyboard.press("Tab")
    assert "Schedule 1, 1f1b mine (kept)" in live()
    page.keyboard.press("Shift+Tab")
    assert "Schedule 0, 1f1b mine:" in live()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") != "chart"


def test_wheel_pan_measure(open_page: Open) -> None:
    """The wheel zooms at the pointer, the background pans, shift measures from edge to edge, a double click fits."""
    page = open_page(ONE)
    box = api(page, "place('2F2')")
    page.mouse.move(box["x"], box["y"] + 5)
    page.mouse.wheel(0, -400)
    until(page, "location.hash.includes('t=')")
    assert api(page, "place('2F2')")["x"] == pytest.approx(box["x"], abs=1.5)
    start, _ = map(float, re.findall(r"[\d.]+", page.evaluate("location.hash")))
    gap = page.evaluate("document.querySelector('#chart').getBoundingClientRect().toJSON()")
    page.mouse.move(gap["x"] + 500, gap["y"] + 35)  # a title: background
    page.mouse.down()
    page.mouse.move(gap["x"] + 400, gap["y"] + 35)
    page.mouse.up()
    until(page, f"Number(/[\\d.]+/.exec(location.hash)[0]) > {start}")
    page.mouse.dblclick(gap["x"] + 500, gap["y"] + 35)
    assert "t=" not in page.evaluate("location.hash")
    one, other = api(page, "place('0B0')"), api(page, "place('0B1')")
    page.keyboard.down("Shift")
    page.mouse.move(one["x"] + 3, one["y"] + 5)
    page.mouse.down()
    page.mouse.move(other["x"] - 3, other["y"] + 5)
    page.mouse.up()
    page.keyboard.up("Shift")
    starts = {entry["op"]: entry["start"] for entry in api(page, "times()")["devices"][0]}
    assert f"Measured {starts['0B0']} to {starts['0B1']}" in page.inner_text("#live")


NAMES = "[...document.querySelectorAll('#all tr')].map(row => row.cells[0].textContent)"


def test_the_best_is_marked(open_page: Open) -> None:
    """The shortest of several schedules that fit is marked, also after an edit; one alone is not."""
    page = open_page(THREE)
    until(page, "document.querySelectorAll('#all tr').length > 3")

    def starred() -> list[str]:
        """The names of the table that have a star."""
        return [name for name in page.evaluate(NAMES) if "★" in name]

    assert starred() == [f"{THREE.best.label} ★"]  # type: ignore[union-attr]
    page = open_page(ONE)
    until(page, "bound.textContent !== '..'")
    assert starred() == []


def test_the_cut_is_shown(open_page: Open) -> None:
    """What has layers says how many each stage has; what has none says nothing."""
    cut = pipesched.run(pipesched.load(layers=10, devices=4, stages=4), "1f1b")
    page = open_page(cut)
    assert page.evaluate("which.textContent") == "1f1b, layers 3, 3, 2, 2"
    assert open_page(ONE).evaluate("which.textContent") == "1f1b mine"


def test_no_table_is_clipped(open_page: Open) -> None:
    """Of idle time by eight classes all columns are seen, and the page has one scrollbar, its own."""
    page = open_page(pipesched.explain(OFFLOADED), width=1000)
    page.evaluate("""() => {
        for (const row of reasons.rows) while (row.cells.length < 10) row.insertCell(1).textContent = "1234.5";
    }""")
    room = "e => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight]"
    boxes = page.evaluate(f"[...document.querySelectorAll('.wide')].map({room})")
    assert all(box == [0, 0] for box in boxes)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_links(open_page: Open) -> None:
    """A link restores window, selection and edits; what it cannot restore is said."""
    page = open_page(THREE)
    api(page, "zoom(20.5, 99.25)")
    assert api(page, "move('1F3', 6, 1)")["ok"]
    assert api(page, "move('0F2', 1, 0)")["ok"]
    assert api(page, "move('1F4', 7, 1)")["ok"]
    api(page, "undo()")
    api(page, "select('2B1', 2)")
    link, there, selected = page.evaluate("[location.hash, pipesched.schedules, pipesched.selected()]")
    assert link == "#t=20.5-99.25&s=2:2B1&m=1:1F3@6,0:0F2@1"
    page = open_page(THREE, link)
    assert page.evaluate("[location.hash, pipesched.schedules, pipesched.selected()]") == [link, there, selected]
    assert page.inner_text("#live").startswith("2B1, ")
    encoded = link.replace(":", "%3A").replace("@", "%40").replace(",", "%2C")
    assert api(open_page(THREE, encoded), "schedules") == there
    broken = open_page(THREE, "#t=9-3&s=0:9F9&m=1:3B2@0,7:0F0@1,0:0F2@1,x&z=1")
    said = broken.inner_text("#live")
    for part in ("t=9-3", "s=0:9F9", "1:3B2@0: 3B2 waits for", "7:0F0@1", "x: unreadable", "z=1"):
        assert part in said
    assert [one["edited"] for one in api(broken, "schedules")] == [True, False, False, False]
    pairs = open_page(PAIRS)
    pair = next(op for op in api(pairs, "schedules[0].orders")[1] if op.startswith("("))
    api(pairs, f"select({pair!r})")
    assert api(open_page(PAIRS, pairs.evaluate("location.hash")), "selected().op") == pair


def test_what_made_a_run_slow(open_page: Open, tmp_path: Path) -> None:
    """The longest gaps of a measured step name its slow link and its slow rank in the words of explain."""
    schedule = pipesched.run(pipesched.make_problem(devices=2, microbatches=4), "1f1b").schedule
    lengths = {"F": 1_000_000, "B": 2_000_000}

    def delay(_before: object, _after: object) -> int:
        return 210_000

    steps = [
        replayed(schedule, lambda slot: lengths[slot.kind], delay, begin, lambda slot: 600_000 * (str(slot) == "1F3"))
        for begin in (0, 10**8, 2 * 10**8)
    ]
    timeline = pipesched.read_traces(torch_traces(tmp_path, steps, [0, 7000], apart=True))
    page = open_page(timeline)
    page.wait_for_selector("#gaps li")
    longest = sorted(timeline.explanation.gaps, key=lambda gap: (gap.start - gap.end, gap.device, gap.start))[:10]
    found = page.locator("#gaps li").all_inner_texts()
    said = [(gap.idle.value, gap_words(gap, "us")) for gap in longest if gap.idle in LATE_PARTS]
    assert {idle for idle, _ in said} == {"message", "runtime"}
    for idle, words in said:
        assert any(text.endswith(f"{idle}: {words}") for text in found), words


def test_messages_in_queues(open_page: Open) -> None:
    """A message below its devices says who sends it to whom and when, gaps say what explain does, and nothing moves."""
    page = open_page(QUEUED)
    box = api(page, "place('0SEND_F3')")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    said = "0SEND_F3: device 0 to 1, issued 0, made 11.25, starts 15.5, ends 15.75; at "
    until(page, f"cursor.textContent.startsWith({said!r})")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert api(page, "selected().op") == "0SEND_F3"
    page.wait_for_selector("#gaps li")
    explained = pipesched.explain(QUEUED).gaps
    longest = sorted(explained, key=lambda gap: (gap.start - gap.end, gap.device, gap.start))[:10]
    ours = [gap_words(gap) for gap in longest if gap.idle.value == "queue"]
    theirs = [text.split("queue: ")[1] for text in page.locator("#gaps li").all_inner_texts() if "queue: " in text]
    assert ours
    assert theirs == ours
    before = state(page)
    reason = "messages queue by rank, and a move would change the order in which they are issued"
    assert api(page, "move('0F3', 1)") == {"ok": False, "reason": reason, "makespan": 54.5}
    drag(page, "3B1", box["x"])
    assert page.inner_text("#live") == f"3B1 stays: {reason}."
    page.keyboard.press("x")
    assert page.inner_text("#live") == f"Nothing moves: {reason}."
    assert api(page, "schedules[0].edited") is False
    assert state(page)[0] == before[0]
    assert state(page)[2:] == before[2:]
    assert api(page, "document()") == document_of(QUEUED)


@pytest.mark.parametrize("queue", at_night_but(["rank"], ["edge", "pair", "rank", "device"]))
@pytest.mark.parametrize("p2p", [0, 1])
def test_keys_in_queues(open_page: Open, queue: str, p2p: float) -> None:
    """Every key works where messages queue, also where they take no time; the console stays silent."""
    page = open_page(pipesched.run(pipesched.make_problem(**{**RANKS, "p2p": p2p}, messages=queue), "interleaved"))
    page.focus("#chart")
    assert api(page, "select('2SEND_B1')")
    for key in [*"hlkjpwmdnx<>[]{}+-fcu0", "ArrowDown", "ArrowDown", "ArrowRight"]:
        page.keyboard.press(key)
        page.evaluate("new Promise(requestAnimationFrame)")
    assert page.inner_text("#verified").startswith("Verified")


def test_copy_and_download(open_page: Open, tmp_path: Path) -> None:
    """The download is the document, which reads back; where copying is not allowed the text is there to take."""
    page = open_page(ONE)
    api(page, "move('1F3', 6)")
    with page.expect_download() as waiting:
        page.click("#download")
    file = tmp_path / "downloaded.json"
    waiting.value.save_as(file)
    read = pipesched.read(file)
    assert isinstance(read, pipesched.Outcome)
    assert read.schedule.makespan == api(page, "makespan()")
    assert pipesched.check(read.schedule) == []
    page.click("#copy")
    until(page, "copied.value || live.textContent.includes('copied')")


LOOKS = [("light", 1280), ("dark", 400), ("light", 400), ("dark", 1280)]


@pytest.mark.parametrize("look", at_night_but(LOOKS[:2], LOOKS))
def test_axe_finds_nothing(open_page: Open, look: tuple[str, int]) -> None:
    """No rule of axe-core is broken, in either scheme, wide or narrow; nothing is wider than the window."""
    scheme, width = look
    axe = Path(os.environ.get("PIPESCHED_AXE", ROOT / "node_modules" / "axe-core" / "axe.min.js"))
    if not axe.exists():
        missing("needs axe-core: npm install --no-save axe-core")
    page = open_page(pipesched.explain(INTERLEAVED), width=width, color_scheme=scheme, reduced_motion="reduce")
    api(page, "select('2F3')")
    page.wait_for_selector("#table tbody tr")
    page.wait_for_timeout(300)
    page.evaluate(axe.read_text(encoding="utf-8"))
    found = page.evaluate(
        "axe.run().then((result) => result.violations.map((one) => one.id + one.nodes.map((n) => n.html)))"
    )
    assert found == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_scheme_changes_the_chart(open_page: Open) -> None:
    """Dark and light have other grounds, also when the scheme changes while the page is open."""
    page = open_page(ONE, color_scheme="light")
    ground = """(() => {
        const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        pen.drawImage(document.querySelector("#paint"), 0, 0);
        return Array.from(pen.getImageData(2, 2, 1, 1).data).slice(0, 3);
    })()"""
    assert min(page.evaluate(ground)) > 240
    page.emulate_media(color_scheme="dark")
    until(page, f"Math.max(...{ground}) < 60")


def test_without_scripts(open_page: Open, browser: Any, tmp_path: Path) -> None:
    """Without scripts, and on paper, the still picture is there."""
    page = browser.new_page(offline=True, java_script_enabled=False)
    page.goto(pipesched.write(THREE, tmp_path / "still.html").as_uri())
    assert page.is_visible("#still svg")
    assert not page.is_visible("#app")
    page.close()
    page = open_page(THREE)
    assert not page.is_visible("#still svg")
    page.emulate_media(media="print")
    assert page.is_visible("#still svg")


OLD = "delete window.DecompressionStream;"


def test_a_browser_without_decompression(browser: Any, tmp_path: Path) -> None:
    """It shows small schedules wholly; of a packed one it says what is missing, above the still picture."""
    large = pipesched.run(pipesched.make_problem(devices=4, microbatches=1000), "1f1b")
    for outcome in (ONE, large):
        context = browser.new_context(offline=True)
        context.add_init_script(OLD)
        page = context.new_page()
        file = pipesched.write(outcome, tmp_path / "page.html", force=True)
        page.goto(file.as_uri())
        if outcome is ONE:
            page.evaluate("pipesched.ready")
            assert api(page, "move('1F3', 6)")["ok"]
            assert not page.is_visible("#still svg")
        else:
            assert "packed" in page.evaluate("pipesched.ready.then(() => '', (error) => error.message)")
            assert page.inner_text("#verified").startswith("This page cannot show the schedule: it holds so many")
            assert page.is_visible("#verified")
            assert page.is_visible("#still svg")
            assert not page.is_visible("#chart")
        context.close()


def test_a_browser_that_cannot_read_the_program(open_page: Open) -> None:
    """A browser too old for the language, as one without scripts, shows the still picture."""
    page = open_page(page_of(ONE).replace('"use strict";', "return;"), wait=False)
    assert page.is_visible("#still svg")
    assert "open this page in a browser with scripts" in page.inner_text("#still")


def test_in_a_notebook(open_page: Open) -> None:
    """In the frame of a notebook's output, where nothing may be stored, the page works and says nothing."""
    output = ONE._repr_mimebundle_()["text/html"]
    page = open_page(f"<!DOCTYPE html><title>notebook</title>{output}", wait=False)
    assert page.is_visible("svg")
    frame = page.frame_locator("iframe")
    frame.locator("#verified:has-text('Verified')").wait_for()
    inner = page.frames[1]
    assert inner.evaluate("pipesched.makespan()") == ONE.schedule.makespan
    assert inner.evaluate("pipesched.move('1F3', 6)")["ok"]
    assert frame.locator("#live").inner_text().startswith("1F3 moved")


def test_a_large_schedule(open_page: Open) -> None:
    """Packed orders of 16,384 operations: the same numbers, areas where slots are small, moves at once."""
    large = pipesched.run(pipesched.make_problem(devices=16, microbatches=512, forward=5, backward=10), "1f1b")
    page = open_page(large)
    assert page.inner_text("#verified").startswith("Verified")
    assert api(page, "makespan()") == large.schedule.makespan
    assert api(page, "schedules[0].orders[5].slice(0, 40)") == [str(s) for s in list(large.schedule.plan.slots(5))[:40]]
    assert not api(page, "move('5B100', 0)")["ok"]
    box = api(page, "place('7F300')")
    assert box["width"] >= 4
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert api(page, "selected().op") == "7F300"


def test_the_cursor_line(open_page: Open) -> None:
    """The line at the pointer says what every device does, its memory, and why it idles."""
    page = open_page(ONE)
    first, other = api(page, "place('0F3')"), api(page, "place('0B0')")
    page.mouse.move((first["x"] + first["width"] + other["x"]) / 2, first["y"] + 5)
    until(page, "cursor.textContent.includes('device 3')")
    said = page.inner_text("#cursor")
    for words in ("at 70", "device 0 order · 4", "device 1 order · 3", "device 2 2B0 · 2", "device 3 3B1 · 1"):
        assert words in said


def test_memory_is_marked_and_allowed(open_page: Open) -> None:
    """A move over the budget is made, and says by how much."""
    tight = pipesched.run(pipesched.make_problem(devices=4, microbatches=8, forward=5, backward=10, budget=4), "1f1b")
    page = open_page(tight)
    assert api(page, "move('0F4', 4)")["ok"]
    assert "Device 0 is over its memory budget by 1." in page.inner_text("#live")
    assert not api(page, "document().metrics.fits")
    until(page, "memory.textContent.includes('over budget')")
