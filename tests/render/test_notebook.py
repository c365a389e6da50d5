"""Notebooks: every noun shows itself as text and as HTML that says the same."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError
from pipesched.display import Displayable
from pipesched.render.html.page import page as page_of
from tests.tuning.made import MADE

PROBLEM = pipesched.make_problem(
    devices=2, stages=4, microbatches=3, forward=5, backward=10, budget=4, unit="GB", time_unit="ms", name="mine"
)
OUTCOME = pipesched.run(PROBLEM, "interleaved")
SOLVED = pipesched.solve(PROBLEM, method="portfolio")
NOUNS: dict[str, tuple[Any, list[str]]] = {  # what stands in its text
    "problem": (PROBLEM, ["devices 2", "stages 4", "forward 5 ms", "activation 0.5 GB", "budget 4"]),
    "plan": (OUTCOME.schedule.plan, ["device 0 0F0 0F1 0F2 2F0", "device 1 1F0"]),
    "schedule": (OUTCOME.schedule, ["device 0", "F- forward", "1 column = 1.25 ms", "makespan 105 ms"]),
    "outcome": (OUTCOME, ["interleaved mine, 2 devices", "device 1", "makespan 105 ms", "bubble of span"]),
    "solved": (SOLVED, ["status", "bound on makespan", "placements tried"]),
    "comparison": (
        pipesched.compare(PROBLEM, ["1f1b", "interleaved", "dualpipe"]),
        ["device 1", "algorithm (ms)", "interleaved ★ 105 best", "dualpipe does not apply: "],
    ),
    "sweep": (
        pipesched.sweep(None, "microbatches", [4, 8], ["1f1b", "interleaved"]),
        ["microbatches 1f1b interleaved", "4 42.86% 27.27%"],
    ),
    "frontier": (
        pipesched.frontier(pipesched.make_problem(devices=2, microbatches=3, placement="linear"), time_limit=10),
        ["memory budget (microbatch) makespan bound gap placement", "1 18 18 optimal linear", "* proved optimal"],
    ),
    "robustness": (
        pipesched.robustness(OUTCOME, noise=0),
        ["interleaved", "without noise", "105 105.0 0.0", "worst straggler"],
    ),
    "tuning": (
        MADE,
        [
            "best of 410,000 points searched (of 470,000): 812 simulated",
            "row t p b recompute algorithm",
            "matrix products 55.2%",
        ],
    ),
    "family": (pipesched.algorithms()[2], ["1f1b", "needs", "placement linear", "source"]),
    "catalogue": (
        pipesched.algorithms(),
        ["algorithm placement bubble", "naive (gpipe, afab, fill-drain) linear", "block"],
    ),
    "report": (SOLVED.report, ["status", "makespan", "bound", "stopped by", "placements"]),
    "bound": (pipesched.Bound(5, "work of device 0", 2), ["bound 2.5", "reason work of device 0"]),
    "costs": (PROBLEM.costs, ["forward 5", "backward 10"]),
    "memory": (PROBLEM.memory, ["unit GB", "activation 0.5", "budget 4"]),
    "placement": (OUTCOME.problem.placement, ["device 0 stages [0, 2]", "device 1 stages [1, 3]"]),
    "chart": (pipesched.Gantt(OUTCOME, rows=[1]), ["device 1"]),
    "table": (pipesched.Table(OUTCOME), ["makespan 105 ms"]),
}


FIGURES = ("frontier", "sweep")  # a figure comes first, and a table
PICTURED = ("schedule", "outcome", "solved", "comparison", *FIGURES)  # a picture comes first, and a frame or a table
WITHOUT = [name for name in NOUNS if name not in PICTURED]


def words(text: str) -> str:
    """A text with single blanks."""
    return " ".join(text.split())


def text_of(page: str) -> str:
    """The text of HTML."""
    return html.unescape(re.sub(r"<[^>]+>", "", page))


@pytest.mark.parametrize("name", NOUNS)
def test_text_and_html_say_what_there_is(name: str) -> None:
    """The plain text holds the figures, without escape codes and trailing blanks."""
    noun, expected = NOUNS[name]
    assert isinstance(noun, Displayable)
    bundle = noun._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", *(["image/svg+xml"] if name in FIGURES else [])}
    for phrase in expected:
        assert phrase in words(bundle["text/plain"])
    assert "\x1b" not in bundle["text/plain"]
    assert all(line == line.rstrip() for line in bundle["text/plain"].splitlines())
    assert max(map(len, bundle["text/plain"].splitlines())) <= 110


@pytest.mark.parametrize("name", WITHOUT)
def test_html_needs_nothing_around_it(name: str) -> None:
    """One preformatted block with its styles inside, no class and no script; where nothing is drawn, the same words."""
    page = NOUNS[name][0]._repr_mimebundle_()["text/html"]
    assert page.startswith("<pre ")
    assert page.endswith("</pre>")
    assert not re.search(r"<(style|script|link)|class=", page)
    if name in ("problem", "plan", "family", "catalogue", "table"):
        assert words(text_of(page)) == words(NOUNS[name][0]._repr_mimebundle_()["text/plain"])


@pytest.mark.parametrize("name", [name for name in PICTURED if name not in FIGURES])
def test_schedules_are_a_picture_and_their_page(name: str) -> None:
    """A still picture, then the page in a frame that may run its scripts and nothing else."""
    page = NOUNS[name][0]._repr_mimebundle_()["text/html"]
    assert page.startswith("<svg ")
    picture, _, frame = page.partition("<iframe ")
    assert "device 1" in text_of(picture)
    attributes = dict(re.findall(r'([a-z]+)="([^"]*)"', frame))
    assert attributes["sandbox"] == "allow-scripts allow-downloads"
    assert attributes["title"].startswith("pipesched: ")
    assert html.unescape(attributes["srcdoc"]) == page_of(NOUNS[name][0])
    assert len(page) < 110_000


@pytest.mark.parametrize(("name", "along"), [("frontier", "budget of a device"), ("sweep", "bubble (%)")])
def test_a_frontier_and_a_sweep_are_pictures(monkeypatch: pytest.MonkeyPatch, name: str, along: str) -> None:
    """Each is its figure, above its table; without matplotlib the table alone."""
    bundle = NOUNS[name][0]._repr_mimebundle_()
    inside, _, rest = bundle["text/html"].partition("</svg>")
    assert inside.startswith("<svg ")
    assert bundle["image/svg+xml"].rstrip().endswith(f"{inside}</svg>")
    assert along in inside
    assert "<pre " in rest
    monkeypatch.setattr("pipesched.render.table.find_spec", lambda _: None)
    assert NOUNS[name][0]._repr_mimebundle_()["text/html"].startswith("<pre ")


def test_large_pages_are_left_out(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would make a notebook heavy is a picture alone; the page goes to a file."""
    monkeypatch.setattr("pipesched.render.table.MOST_EMBEDDED", 50_000)
    page = OUTCOME._repr_mimebundle_()["text/html"]
    assert page.startswith("<svg ")
    assert "<iframe" not in page
    assert ".to_html(path)" in page
    path = OUTCOME.to_html(tmp_path / "large.html")
    assert path.read_text(encoding="utf-8") == page_of(OUTCOME)
    with pytest.raises(ConfigError, match="exists"):
        OUTCOME.to_html(path)
    assert OUTCOME.to_html(path, force=True) == path


def test_include_and_exclude() -> None:
    """A front end may ask for some kinds only."""
    assert set(OUTCOME._repr_mimebundle_(include=["text/plain"])) == {"text/plain"}
    assert set(OUTCOME._repr_mimebundle_(exclude=["text/html"])) == {"text/plain"}
    assert OUTCOME._repr_mimebundle_(include=["image/png"]) == {}


def test_a_schedule_that_breaks_a_rule_is_shown_as_text() -> None:
    """What no page can show is still displayed."""
    schedule = OUTCOME.schedule
    broken = pipesched.Schedule(schedule.problem, schedule.plan, [0] * len(schedule.end_ticks), schedule.end_ticks)
    assert broken._repr_mimebundle_()["text/html"].startswith("<pre ")


def test_names_are_no_markup() -> None:
    """What looks like a tag of HTML or of Rich is text."""
    problem = pipesched.make_problem(devices=1, name="<b>[red]x[/red]</b> :smile:")
    bundle = pipesched.run(problem, "1f1b")._repr_mimebundle_()
    assert "<b>[red]x[/red]</b> :smile:" in bundle["text/plain"]
    assert "&lt;b&gt;[red]x[/red]&lt;/b&gt; :smile:" in bundle["text/html"]
    assert "<b>" not in bundle["text/html"]


def test_a_frontier_and_a_comparison_of_documents(tmp_path: Any) -> None:
    """Nouns without schedules, which were read from a file, show the same tables."""
    for name in ("comparison", "sweep", "frontier"):
        noun = NOUNS[name][0]
        again = pipesched.read(pipesched.write(noun, tmp_path / f"{name}.json"))
        bundle = noun._repr_mimebundle_()
        shown = again._repr_mimebundle_()
        if name == "comparison":  # its document has no schedules, and so no charts and no page
            assert bundle["text/plain"].endswith(shown["text/plain"])
            assert shown["text/html"].startswith("<pre ")
        else:
            assert shown == bundle


@pytest.mark.parametrize("noun", [pipesched.Comparison(()), pipesched.Sweep("x", ()), pipesched.Frontier(())])
def test_empty_nouns(noun: Any) -> None:
    """Nothing in it is shown as little, and no failure."""
    assert set(noun._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_a_long_plan_is_cut() -> None:
    """A plan of many slots shows the first ones of each device, and says how many more there are."""
    plan = pipesched.run(pipesched.make_problem(devices=2, microbatches=100), "1f1b").schedule.plan
    text = words(plan._repr_mimebundle_()["text/plain"])
    assert text.count(".. 176 more") == 2
    assert "0B99" not in text


def test_nouns_load_no_renderer() -> None:
    """Making, scheduling and comparing problems does not load Rich: it is loaded when something is shown."""
    code = (
        "import sys, pipesched\n"
        "outcome = pipesched.run(pipesched.make_problem(devices=2), '1f1b')\n"
        "repr(pipesched.compare(outcome.problem, ['naive', '1f1b']))\n"
        "before = 'rich' in sys.modules\n"
        "outcome._repr_mimebundle_()\n"
        "print(before, 'rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"
