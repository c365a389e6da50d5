"""What is read and written: files, formats of ours and of users, lengths of lines."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import ConfigError, InvalidSchedule, NotApplicable, make_problem
from pipesched.documents.comparison import comparison_document, frontier_document, sweep_document
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document
from pipesched.errors import OwnCodeFailed
from pipesched.file_formats.files import lengths_in
from pipesched.file_formats.registry import FIGURES, FORMATS, format_of
from tests.examples import at_night_but

PROBLEM = pipesched.make_problem(
    devices=2, stages=4, microbatches=3, forward=[1.5, 2, 2, 1], p2p=0.1, budget=9, unit="GB", time_unit="ms"
)
OUTCOME = pipesched.run(PROBLEM, "interleaved")
SOLVED = pipesched.solve(PROBLEM, time_limit=5)
COMPARISON = pipesched.compare(PROBLEM, ["1f1b", "interleaved", "list", "chimera"])
SWEEP = pipesched.sweep("devices: 2\nstages: 4", "costs.p2p", [0, "0.5", 2], ["1f1b", "interleaved", "chimera"])
FRONTIER = pipesched.frontier(
    pipesched.make_problem(devices=2, microbatches=3, forward=0.5, placement="linear", unit="GB", time_unit="ms"),
    objective="span",
    time_limit=10,
)


def written(noun: Any) -> str:
    """The document of a noun, as text."""
    kinds: list[tuple[type, Any]] = [
        (pipesched.Outcome, document),
        (pipesched.Comparison, comparison_document),
        (pipesched.Sweep, sweep_document),
        (pipesched.Frontier, frontier_document),
    ]
    [write] = [write for kind, write in kinds if isinstance(noun, kind)]
    return dump(write(noun))


@pytest.mark.parametrize("noun", [OUTCOME, SOLVED, COMPARISON, SWEEP, FRONTIER], ids=lambda noun: type(noun).__name__)
def test_every_noun_is_read_back(tmp_path: Path, noun: Any) -> None:
    """What `write` wrote is read as the same noun; written again it is the same file, but for what a solve knew."""
    path = pipesched.write(noun, tmp_path / "noun.json")
    assert path == tmp_path / "noun.json"
    again = pipesched.read(path)
    assert type(again) is type(noun)
    if noun is not SOLVED:
        assert written(again) == path.read_text(encoding="utf-8") == written(noun)
    with path.open() as file:
        assert repr(pipesched.read(file)) == repr(again)
    assert repr(pipesched.read(str(path))) == repr(again)
    assert repr(pipesched.read(io.BytesIO(path.read_bytes()))) == repr(again)  # type: ignore[arg-type]


def test_a_comparison_comes_back_without_schedules() -> None:
    """Rows have their metrics, their reasons and their ranks; there is nothing to draw."""
    again = pipesched.read(io.StringIO(written(COMPARISON)))
    assert isinstance(again, pipesched.Comparison)
    assert [entry.algorithm for entry in again] == ["1f1b", "interleaved", "list", "chimera"]
    assert [entry.metrics for entry in again] == [entry.metrics for entry in COMPARISON]
    assert [entry.reason for entry in again] == [entry.reason for entry in COMPARISON]
    assert all(entry.outcome is None for entry in again)
    assert [entry.algorithm for entry in again.ranked()] == [entry.algorithm for entry in COMPARISON.ranked()]
    assert again.best == again[COMPARISON.best.algorithm if COMPARISON.best else ""]
    with pytest.raises(ConfigError, match="nothing to draw"):
        pipesched.figure(again)


def test_a_csv_takes_costs_and_placement(tmp_path: Path) -> None:
    """PyTorch's CSV has no costs: they come from a problem of its size, or a multiple of its stages, or the default."""
    path = pipesched.write(OUTCOME, tmp_path / "mine.csv")
    timed = pipesched.read(path, problem=PROBLEM)
    assert isinstance(timed, pipesched.Outcome)
    assert (timed.algorithm, timed.schedule.makespan) == ("mine", OUTCOME.schedule.makespan)
    assert timed.problem.placement == OUTCOME.problem.placement
    plain = pipesched.read(path)
    assert isinstance(plain, pipesched.Outcome)
    assert plain.problem.costs.forward == (5,) * 4
    finer = pipesched.make_problem(devices=2, stages=8, microbatches=3)
    fused = pipesched.read(path, problem=finer)
    assert isinstance(fused, pipesched.Outcome)
    assert (fused.problem.stages, fused.problem.costs.forward) == (4, (2,) * 4)
    with pytest.raises(ConfigError, match=r"problem: 4 microbatches, but .* has 3") as caught:
        pipesched.read(path, problem=pipesched.make_problem(devices=2, stages=4, microbatches=4))
    assert caught.value.key == "problem"
    with pytest.raises(ConfigError, match="problem: must be a Problem"):
        pipesched.read(path, problem="linear")  # type: ignore[arg-type]


def mangled(noun: Any, random: Random) -> str:
    """The document of a noun with one value replaced."""
    content = json.loads(written(noun))
    place: Any = content
    while True:
        key = random.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], (dict, list)) or not place[key] or random.random() < 0.3:
            break
        place = place[key]
    place[key] = random.choice([None, True, -1, 0, 0.5, 10**400, "x", "", [], {}, [1], {"a": 1}])
    return json.dumps(content)


@given(st.sampled_from(["comparison", "sweep", "frontier"]), st.randoms(use_true_random=False))
def test_any_change_of_a_list_of_rows_is_read_or_refused(kind: str, random: Random) -> None:
    """Whatever stands in the place of a value: ConfigError, or a noun that can be shown and written."""
    try:
        noun = {"comparison": COMPARISON, "sweep": SWEEP, "frontier": FRONTIER}[kind]
        again = pipesched.read(io.StringIO(mangled(noun, random)))
    except ConfigError:
        return
    assert json.loads(written(again))
    assert set(again._repr_mimebundle_()) >= {"text/plain", "text/html"}
    assert repr(again)


BY_DAY = [form for form in pipesched.formats() if form.name not in ("png", "pdf")]


@pytest.mark.slow
@pytest.mark.parametrize("form", at_night_but(BY_DAY, pipesched.formats()), ids=lambda form: form.name)
@pytest.mark.parametrize(
    ("holds", "noun"),
    [("schedule", OUTCOME), ("comparison", COMPARISON), ("sweep", SWEEP), ("frontier", FRONTIER)],
    ids=["schedule", "comparison", "sweep", "frontier"],
)
def test_what_formats_hold(tmp_path: Path, form: pipesched.Format, holds: str, noun: Any) -> None:
    """A format writes the nouns that it says it holds, and refuses the others with those that can."""
    path = tmp_path / f"x{form.suffix}"
    if holds in form.holds:
        content = pipesched.write(noun, path).read_bytes()
        assert len(content) > 20
        assert form.binary or content.decode()
        return
    with pytest.raises(ConfigError, match=f"{form.name} cannot hold a {holds}; .* can") as caught:
        pipesched.write(noun, path, format=form.name)
    assert caught.value.key == "format"
    assert not path.exists()


def test_formats_say_what_is_read_back() -> None:
    """JSON holds every noun (and reads it back, but explanations), the CSV a schedule; the others are for viewers."""
    table = {form.name: (form.suffix, form.holds, form.reads, form.binary) for form in pipesched.formats()}
    every = (
        "schedule", "comparison", "sweep", "frontier", "explanation", "hls-explanation", "estimate", "tuning",
        "timeline", "packing", "robustness",
    )  # fmt: skip
    assert table["json"] == (".json", every, True, False)
    assert table["pytorch-csv"] == (".csv", ("schedule",), True, False)
    assert table["chrome-trace"] == (".trace.json", ("schedule",), False, False)
    assert table["config"] == (".yaml", ("estimate", "tuning", "timeline", "packing"), False, False)
    not_read = [name for name, (_, _, reads, _) in table.items() if not reads]
    assert table["html"] == (".html", ("schedule", "comparison", "explanation", "timeline"), False, False)
    assert not_read == ["chrome-trace", "config", "html", "svg", "png", "pdf"]


def test_an_existing_file_is_replaced_by_force_only(tmp_path: Path) -> None:
    """It stays as it is, down to the last byte, unless it may be replaced; a link stays a link."""
    path, link = tmp_path / "x.json", tmp_path / "link.json"
    path.write_text("precious")
    link.symlink_to(path)
    for target in (path, link):
        with pytest.raises(ConfigError, match="exists; `force` overwrites it") as caught:
            pipesched.write(OUTCOME, target)
        assert caught.value.key == "path"
        assert path.read_text() == "precious"
    pipesched.write(OUTCOME, link, force=True)
    assert link.is_symlink()
    assert path.read_text() == written(OUTCOME)
    assert sorted(tmp_path.iterdir()) == [link, path]


def test_a_dangling_link_is_a_file_too(tmp_path: Path) -> None:
    """A link to nothing is not followed without force."""
    link = tmp_path / "x.json"
    link.symlink_to(tmp_path / "nothing.json")
    with pytest.raises(ConfigError, match="exists"):
        pipesched.write(OUTCOME, link)
    assert not (tmp_path / "nothing.json").exists()


def test_whole_or_not_at_all(tmp_path: Path) -> None:
    """A format that refuses the schedule leaves nothing, and what stood there as it was."""
    bidirectional = pipesched.run(pipesched.make_problem(devices=4, microbatches=8), "chimera")
    path = tmp_path / "x.csv"
    path.write_text("precious")
    with pytest.raises(NotApplicable, match="two copies"):
        pipesched.write(bidirectional, path, force=True)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


WAITING = pipesched.make_problem(
    devices=1, microbatches=2, forward=2, backward=4, activation=10, offload=1, reload=3, placement="linear"
)


def late_load() -> pipesched.Outcome:
    """A schedule whose load waits for a backward that it would not wait for by itself."""
    plan = pipesched.plan(WAITING, ["0F0 0F1 0B1 0B0"], transfers=["0O0 0L0"], waits=[("0L0", "0B1"), ("0F1", "0O0")])
    return pipesched.Outcome("by hand", pipesched.schedule_plan(WAITING, plan))


def test_waits_stand_in_the_document() -> None:
    """Pairs of texts, later then earlier; a plan without them has no such key."""
    content = json.loads(written(late_load()))
    assert content["waits"] == [["0L0", "0B1"], ["0F1", "0O0"]]
    assert "waits" not in json.loads(written(OUTCOME))


GIVEN = pipesched.make_problem(devices=2, microbatches=4, forward=5, backward=10, budget=1)
GIVEN_OUTCOME = pipesched.run(GIVEN, "1f1b")
FUNCTIONS: list[tuple[str, Callable[..., Any]]] = [
    ("schedule", pipesched.check),
    ("schedule", lambda given, **more: pipesched.explain(given, **more).idle),
    ("outcomes", lambda given, **more: pipesched.robustness(given, samples=10, **more).rows[0].mean),
    ("schedule", lambda given, **more: pipesched.hand_over(given, "megatron", **more)),
    ("result", lambda given, **more: pipesched.write(given, "copy.csv", force=True, **more).read_text()),
    ("result", lambda given, **more: len(pipesched.figure(given, **more).axes)),
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedule as a document and as a CSV."""
    monkeypatch.chdir(tmp_path)
    pipesched.write(GIVEN_OUTCOME, "1f1b.json")
    pipesched.write(GIVEN_OUTCOME, "1f1b.csv")


@pytest.mark.parametrize(("key", "function"), FUNCTIONS)
@pytest.mark.usefixtures("files")
def test_a_file_stands_for_what_it_holds(key: str, function: Callable[..., Any]) -> None:
    """By its name or its path; a CSV with a problem; what is missing, or has no effect, is said about its parameter."""
    expected = function(GIVEN_OUTCOME)
    assert function("1f1b.json") == expected
    assert function(Path("1f1b.csv"), problem=GIVEN) == expected
    for arguments, more, about, message in (
        (["1f1b.csv"], {}, "problem", "1f1b.csv is a CSV, which holds no costs: give a Problem"),
        (["1f1b.json"], {"problem": GIVEN}, "problem", "1f1b.json is a document, which holds its own problem"),
        ([GIVEN_OUTCOME], {"problem": GIVEN}, "problem", "gives a CSV its costs, and none is named"),
        (["none.json"], {}, key, "cannot read 'none.json': No such file"),
    ):
        with pytest.raises(ConfigError) as caught:
            function(*arguments, **more)
        assert caught.value.key == about
        assert caught.value.message.startswith(message)


@pytest.mark.usefixtures("files")
def test_lists_and_comparisons() -> None:
    """A list may mix files and schedules; compare takes one file alone too."""
    found = pipesched.robustness(["1f1b.json", GIVEN_OUTCOME, "1f1b.csv"], problem=GIVEN, samples=10)
    assert [row.makespan for row in found.rows] == [GIVEN_OUTCOME.schedule.makespan] * 3
    assert pipesched.compare(plans=Path("1f1b.json"))[0].outcome is not None


def npy(values: Any, *, allow_pickle: bool = False) -> bytes:
    """Return an array as NumPy writes it."""
    file = io.BytesIO()
    np.save(file, values, allow_pickle=allow_pickle)
    return file.getvalue()


@given(st.lists(st.integers(1, 10**9), min_size=1), st.sampled_from([" ", ",", "\n", ", ", "\t", ",\n", "\r\n"]))
def test_every_form_holds_the_same(lengths: list[int], between: str) -> None:
    """A text with any separators, a JSON list and an array give the numbers that were written."""
    text = between.join(map(str, lengths))
    forms = (text.encode(), f" {lengths}\n".encode(), npy(np.array(lengths)), npy(np.array(lengths, dtype=np.uint32)))
    assert [lengths_in(form, "docs") for form in forms] == [lengths] * 4


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"9" * 5000, "docs:1: must be a whole number of at least 1, not '9999999999999999999999999999999"),
        (b"\xff\xfe", "docs is no text file (UTF-8 is expected)"),
        (npy(np.array([1.0])), "docs must hold whole numbers in one dimension, not an array of float64 in 1"),
        (npy(np.array([[1, 2]])), "docs must hold whole numbers in one dimension, not an array of int64 in 2"),
        (npy(np.array([3, 0])), "docs: entry 1: must be a whole number of at least 1, not 0"),
        (npy(np.array([3, 4]))[:-5], "docs is no array of whole numbers: "),
        (b"\x93NUMPY\x01\x00", "docs is no array of whole numbers: "),
    ],
)
def test_what_is_no_list_of_lengths(data: bytes, message: str) -> None:
    """Each says where it stands, and what was found; of texts tests/golden/said/pack.txt does."""
    with pytest.raises(ConfigError) as caught:
        lengths_in(data, "docs")
    assert str(caught.value).startswith(message)


def test_no_pickle_is_read() -> None:
    """Neither a pickle nor an array of Python objects is unpickled."""

    class Bomb:
        def __reduce__(self) -> Any:
            return pytest.fail, ("was unpickled",)

    for data in (pickle.dumps([3, 4]), pickle.dumps(Bomb()), npy(np.array([Bomb()]), allow_pickle=True)):
        with pytest.raises(ConfigError, match=r"no text file|binary file|no array of whole numbers"):
            lengths_in(data, "docs")


HERE = Path(__file__).name
OWN_PROBLEM = make_problem(devices=3, microbatches=4, forward=2, backward=3)


@pytest.fixture(autouse=True)
def _formats(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test leaves the formats as they were."""
    before = dict(FORMATS)
    yield
    FORMATS.clear()
    FORMATS.update(before)


def own_dump(outcome: pipesched.Outcome) -> str:
    plan = outcome.schedule.plan
    return "".join(" ".join(map(str, plan.slots(device))) + "\n" for device in range(outcome.problem.devices))


def load(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_it_is_written_and_read(tmp_path: Path) -> None:
    """By its suffix and by its name; its costs are those of a problem, as for a CSV, and `compare` takes the file."""
    made = pipesched.file_format("lines", ".lines", own_dump, load)
    assert (made, made.holds, made.reads) == (pipesched.formats()[-1], ("schedule",), True)
    outcome = pipesched.run(OWN_PROBLEM, "1f1b")
    file = pipesched.write(outcome, tmp_path / "plan.lines")
    assert file.read_text(encoding="utf-8") == own_dump(outcome)
    back = pipesched.read(file, problem=OWN_PROBLEM)
    assert isinstance(back, pipesched.Outcome)
    assert (back.algorithm, back.metrics) == ("plan", outcome.metrics)
    assert pipesched.compare(OWN_PROBLEM, plans=[file])[0].outcome is not None
    assert pipesched.explain(file, problem=OWN_PROBLEM).schedule.makespan == outcome.schedule.makespan
    pipesched.write(outcome, tmp_path / "other", format="lines")
    with pytest.raises(ConfigError, match="lines cannot hold a sweep"):
        pipesched.write(pipesched.sweep(None, "microbatches", [4], "1f1b"), tmp_path / "x", format="lines")


def fails(_: Any) -> Any:
    return 1 // 0


def returns_a_number(_: Any) -> Any:
    return 5


def test_what_it_does_wrong(tmp_path: Path) -> None:
    """What its functions raise, or return wrongly, names the format, the file and the line; nothing is written."""
    outcome, file = pipesched.run(OWN_PROBLEM, "1f1b"), tmp_path / "a.bad"
    for function, said in (
        (fails, r":\d+: bad: ZeroDivisionError"),
        (returns_a_number, "must return text or bytes, not 5"),
    ):
        FORMATS.pop("bad", None)
        pipesched.file_format("bad", ".bad", function, function)
        with pytest.raises(OwnCodeFailed, match=f"{HERE}.*{said}"):
            pipesched.write(outcome, file)
        assert not file.exists()
    file.write_text("anything", encoding="utf-8")
    with pytest.raises(OwnCodeFailed, match=f"{HERE}.*bad of .*a.bad: TypeError"):
        pipesched.read(file, problem=OWN_PROBLEM)
    pipesched.file_format("lines", ".lines", reader=load)
    (tmp_path / "b.lines").write_text("0F0 hello\n", encoding="utf-8")
    with pytest.raises((ConfigError, InvalidSchedule), match="hello"):
        pipesched.read(tmp_path / "b.lines", problem=OWN_PROBLEM)


SUFFIXES = {one.name: one.suffix for one in FORMATS.values()}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a.json", "json"),
        ("a.trace.json", "chrome-trace"),
        ("trace.json", "json"),
        ("dir.csv/a.JSON", "json"),
        ("A.CSV", "pytorch-csv"),
        ("a.b.svg", "svg"),
    ],
)
def test_suffix_names_the_format(path: str, name: str) -> None:
    """The longest suffix that fits counts, in any case."""
    assert format_of(path, SUFFIXES).name == name


@pytest.mark.parametrize("path", ["a", "json", "a.json.gz", "", "a.json/"])
def test_unknown_suffix(path: str) -> None:
    """Another suffix is refused with those there are."""
    with pytest.raises(
        ConfigError, match=r"must end in \.json, \.csv, \.trace\.json, \.yaml, \.html, \.svg, \.png or \.pdf"
    ):
        format_of(path, SUFFIXES)


def test_figures_are_formats() -> None:
    """What a comparison can be drawn as is what a schedule can be drawn as."""
    assert set(FIGURES) < set(FORMATS)
