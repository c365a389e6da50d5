"""The file of a page: its size, what it holds, what it refuses, and the still picture in it."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import pipesched
from compact import compact
from pipesched import ConfigError, InvalidSchedule, NotApplicable
from pipesched.render.html.page import ENGINE, VIEW, asset, page, program, still
from pipesched.render.palette import colour_of, place_of
from tests.stepped import TIED, sliced

OUTCOME = pipesched.run(pipesched.make_problem(devices=4, microbatches=8, forward=5, backward=10), "1f1b")


PARTS = {"page.html", "page.css", "program.json"}


def data_of(text: str) -> Any:
    """The data of a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.parametrize("name", ["naive", "1f1b", "eager-1f1b"])
def test_sizes(name: str) -> None:
    """A page of 64 operations has less than 90 kB; nothing in it is packed."""
    text = page(pipesched.run(OUTCOME.problem, name))
    assert len(text.encode()) < 90_000
    assert '"packed"' not in text


def test_the_program() -> None:
    """The program has at most 71 KiB, with queues 76: the files of `page/`, each of at most 350 lines."""
    assert len(program().encode()) <= 76 * 1024
    free = page(OUTCOME)
    assert compact(asset("messages.js")) not in free
    assert len(program(tuple({*ENGINE, *VIEW} - {"messages"})).encode()) <= 71 * 1024
    names = {f"{name}.js" for name in (*ENGINE, *VIEW)}
    assert {path.name for path in (files("pipesched.render.html") / "page").iterdir()} == {*names, *PARTS}
    assert all(asset(name).count("\n") < 350 for name in names)


def test_swatches_of_kinds_differ() -> None:
    """A schedule with B and one with I and W in a page: each kind has a colour of its own, by hue and by kind."""
    both = pipesched.compare(OUTCOME.problem, ["1f1b", "zb-h1"])
    text = page(both)
    for name in ("of-hue", "of-kind"):
        found = re.findall(
            rf'<li class="{name}"><i class="[a-z]*" style="background-color:(rgb\([^)]*\))"></i>(\w) ', text
        )
        assert [letter for _, letter in found] == ["F", "B", "I", "W"]
        assert len({colour for colour, _ in found}) == 4


def test_compact_scripts() -> None:
    """Comments and needless spaces go; texts, what templates say and regular expressions stay."""
    script = """// a comment
const a = "x  // y;}", b = `${a ? ` ; ${ {} } ` : "-"}  `; // another
function f(x) {
  return x + +b - -1 / 2;
}

f(/ , [/"] ;/.test(a), 1 / 2 / 3);
"""
    assert compact(script) == (
        'let a="x  // y;}",b=`${a?` ; ${{}} `:"-"}  `;function f(x){return x + +b - -1/2}f(/ , [/"] ;/.test(a),1/2/3);'
    )


def test_neighbouring_declarations_are_one() -> None:
    """Those of loops, and of other blocks, stay apart."""
    script = """const a = x => {
  const b = "; const ", c = [1];
  const { d } = x;
  for (let i = 0; i < 2; i++) { let e = [a, b,]; const g = e; }
  const h = /;let /.test(d) ? b : c;
  return h;
};
const [i] = [`;let ${(() => { const a = 1; const b = a; return b; })()}`];
let j = 1;
j += f(a) - 1;
let k = 2;
"""
    assert compact(script) == (
        'let a=x=>{let b="; const ",c=[1],{d}=x;for(let i=0;i<2;i++){let e=[a,b],g=e}let h=/;let /.test(d)?b:c;'
        "return h},[i]=[`;let ${(()=>{let a=1,b=a;return b})()}`],j=1;j+=f(a)-1;let k=2;"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["1f1b", "interleaved", "zb-h1"])
def test_size_of_a_large_page(name: str) -> None:
    """A page of 131,072 operations has less than 400 kB."""
    halves: dict[str, Any] = {"backward_input": 5, "backward_weight": 5} if name == "zb-h1" else {"backward": 10}
    stages, microbatches = (128, 512) if name == "interleaved" else (64, 1024)
    problem = pipesched.make_problem(devices=64, stages=stages, microbatches=microbatches, forward=5, **halves)
    assert len(page(pipesched.run(problem, name)).encode()) < 400_000


def test_small_schedules_are_plain() -> None:
    """Up to 5,000 operations orders are texts; times stand there only where they are late."""
    found = data_of(page(OUTCOME))["schedules"][0]["plan"]
    assert found["orders"] == [[str(slot) for slot in OUTCOME.schedule.plan.slots(device)] for device in range(4)]
    assert found["starts"] is None
    assert "packed" not in found


def test_nothing_from_elsewhere() -> None:
    """No address of the network stands in a page, and nothing that users wrote ends a script or begins a comment."""
    evil = pipesched.make_problem(devices=1, microbatches=1, name="</script><!--<script>", time_unit="</style>")
    text = page(pipesched.run(evil, "1f1b"))
    assert "http:" not in text
    assert "https:" not in text
    assert "<!--" not in text
    assert text.count("</script>") == 2
    assert text.count("</style>") == 1


def test_what_has_no_page() -> None:
    """A sweep has none, a comparison of a document neither; a schedule that breaks a rule is refused."""
    with pytest.raises(ConfigError, match="must be an Outcome"):
        page(pipesched.sweep(None, "microbatches", [4], ["1f1b"]))
    with pytest.raises(NotApplicable, match="no schedule to show"):
        page(pipesched.Comparison(()))
    schedule = OUTCOME.schedule
    broken = pipesched.Schedule(schedule.problem, schedule.plan, [0] * len(schedule.start_ticks), schedule.end_ticks)
    with pytest.raises(InvalidSchedule):
        page(broken)


def test_what_does_not_apply_is_said() -> None:
    """A comparison's page says which algorithms do not apply."""
    compared = pipesched.compare(pipesched.make_problem(devices=3, microbatches=5), ["1f1b", "dualpipe"])
    (remark,) = data_of(page(compared))["remarks"]
    assert remark.startswith("dualpipe does not apply: ")


def test_ways_to_a_page(tmp_path: Path) -> None:
    """write by suffix and by name, and to_html of everything that has schedules."""
    for result in (OUTCOME, OUTCOME.schedule, pipesched.compare(OUTCOME.problem, ["1f1b"]), pipesched.explain(OUTCOME)):
        file = pipesched.write(result, tmp_path / f"{type(result).__name__}.html")
        assert file.read_text(encoding="utf-8") == page(result)
        assert pipesched.write(result, tmp_path / "x.txt", format="html", force=True).read_bytes() == file.read_bytes()
        assert result.to_html(file, force=True).read_text(encoding="utf-8") == page(result)


def test_still_picture() -> None:
    """Every slot is a box of the picture, at its time."""
    picture = still([("x", OUTCOME)])
    boxes = re.findall(r"M([\d.]+) [\d.]+h([\d.]+)", picture)
    starts = sorted(start for row in OUTCOME.schedule.slot_start_ticks for start in row)
    assert len(boxes) == len(starts)
    scale = 930 / OUTCOME.schedule.makespan
    assert sorted(float(x) for x, _ in boxes) == pytest.approx([start * scale for start in starts], abs=0.01)


def test_still_picture_of_slices() -> None:
    """Each slice has its shade, and its number where that fits."""
    picture = still([("x", sliced())])
    shades = {colour_of(0, "F", place=place_of(part, 4)) for part in range(4)}
    assert all(f'stroke="#{red:02x}{green:02x}{blue:02x}"' in picture for red, green, blue in shades)
    assert {f">{microbatch}.{part}<" in picture for microbatch in range(4) for part in range(4)} == {True}
    assert ">0<" in picture


def test_still_picture_of_a_step() -> None:
    """A row half as high below each device has the colours of gathers and reductions."""
    picture = still([("x", pipesched.run(pipesched.make_problem(**TIED), "1f1b"))])
    half = re.findall(r'stroke="(#[0-9a-f]+)" stroke-width="9"', picture)
    assert {*half} == {"#dc7", "#825", "#328"}  # sand, wine and indigo


def test_messages_in_queues() -> None:
    """Their lanes stand in the still picture, those of messages that take no time not; the program knows queues."""
    costs: dict[str, Any] = {"forward": 1, "backward": 2, "messages": "rank"}
    queued, quick = (
        pipesched.run(pipesched.make_problem(devices=3, microbatches=4, **costs, p2p=p2p), "1f1b") for p2p in (1, 0)
    )
    assert compact(asset("messages.js")) in page(queued)
    boxes = [len(re.findall(r"M[\d.]+ [\d.]+h[\d.]+", still([("x", one)]))) for one in (queued, quick)]
    assert boxes == [2 * 3 * 4 + 2 * 2 * 2 * 4, 2 * 3 * 4]  # both ends of a message on two boundaries, there and back


def test_still_picture_of_many_slots() -> None:
    """Above 5,000 operations each device is one area: how busy it is in each of 500 columns."""
    large = pipesched.run(pipesched.make_problem(devices=8, microbatches=400, forward=5, backward=10), "1f1b")
    picture = still([("x", large)])
    assert picture.count('<path fill="#5b7fa6"') == 8
    assert len(picture) < 60_000


def test_pictures_of_edges() -> None:
    """Nothing that takes time, and very many devices: still a picture."""
    for problem in (
        pipesched.make_problem(devices=2, microbatches=2, forward=0, backward=0),
        pipesched.make_problem(devices=300, microbatches=2),
    ):
        assert still([("x", pipesched.run(problem, "1f1b"))]).startswith("<svg ")
