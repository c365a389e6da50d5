"""Files: every noun is read back as it was written, told apart by what stands in it; and what cannot be is refused."""

from __future__ import annotations

import io
import json
import os
import stat
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched.documents.comparison import comparison_document, frontier_document, pareto_document, sweep_document
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.problem.problem import Problem
from pipesched.results.comparison import pareto_points
from tests.strategies import SETTLED, problems, random_saving_plan, saving_plan_of

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


def test_a_pareto_document_is_a_comparison(tmp_path: Path) -> None:
    """What `compare --pareto` writes is read as the comparison of its rows, ranked."""
    path = tmp_path / "pareto.json"
    path.write_text(dump(pareto_document(COMPARISON, pareto_points(COMPARISON))))
    again = pipesched.read(path)
    assert isinstance(again, pipesched.Comparison)
    assert [entry.algorithm for entry in again] == [entry.algorithm for entry in COMPARISON.ranked()]


def test_a_sweep_comes_back_by_its_field() -> None:
    """The field, its values as numbers, and at each the comparison."""
    again = pipesched.read(io.StringIO(written(SWEEP)))
    assert isinstance(again, pipesched.Sweep)
    assert (again.field, [point.value for point in again]) == ("costs.p2p", [0, 0.5, 2])
    for mine, theirs in zip(again, SWEEP, strict=True):
        assert [entry.metrics for entry in mine.comparison] == [entry.metrics for entry in theirs.comparison]
        assert [entry.reason for entry in mine.comparison] == [entry.reason for entry in theirs.comparison]


def test_a_frontier_comes_back_with_its_units() -> None:
    """Objective, labels, and every number and word of the points; the rows stay for those who ask for more."""
    again = pipesched.read(io.StringIO(written(FRONTIER)))
    assert isinstance(again, pipesched.Frontier)
    assert (again.objective, again.time_unit, again.memory_unit) == ("span", "ms", "GB")
    names = ("budget", "value", "bound", "gap", "status", "placement", "source")
    for mine, theirs in zip(again, FRONTIER, strict=True):
        assert [getattr(mine, name) for name in names] == [getattr(theirs, name) for name in names]
        assert theirs.outcome is not None
        assert mine.outcome is None
        assert mine.row is not None
        assert mine.row["makespan"] == theirs.outcome.schedule.makespan


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


def test_a_document_holds_its_own_problem(tmp_path: Path) -> None:
    """Costs beside a document are refused: they would be without effect."""
    path = pipesched.write(OUTCOME, tmp_path / "mine.json")
    with pytest.raises(ConfigError, match="holds its own problem") as caught:
        pipesched.read(path, problem=PROBLEM)
    assert caught.value.key == "problem"


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


def test_a_schedule_is_written_as_an_outcome(tmp_path: Path) -> None:
    """A bare schedule is called as its plan, which is the name of its algorithm."""
    again = pipesched.read(pipesched.write(OUTCOME.schedule, tmp_path / "plan.json"))
    assert isinstance(again, pipesched.Outcome)
    assert (again.algorithm, again.metrics) == (OUTCOME.algorithm, OUTCOME.metrics)


@pytest.mark.slow
@pytest.mark.parametrize("form", pipesched.formats(), ids=lambda form: form.name)
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
        "schedule",
        "comparison",
        "sweep",
        "frontier",
        "explanation",
        "hls-explanation",
        "estimate",
        "tuning",
        "timeline",
        "packing",
        "robustness",
    )
    assert table["json"] == (".json", every, True, False)
    assert table["pytorch-csv"] == (".csv", ("schedule",), True, False)
    assert table["chrome-trace"] == (".trace.json", ("schedule",), False, False)
    assert table["config"] == (".yaml", ("estimate", "tuning", "timeline", "packing"), False, False)
    not_read = [name for name, (_, _, reads, _) in table.items() if not reads]
    assert table["html"] == (".html", ("schedule", "comparison", "explanation", "timeline"), False, False)
    assert not_read == ["chrome-trace", "config", "html", "svg", "png", "pdf"]


@pytest.mark.parametrize("name", ["json", "JSON", ".json", "pytorch-csv", "csv", "trace.json", "chrome-trace"])
def test_a_format_by_name_or_suffix(tmp_path: Path, name: str) -> None:
    """`format` counts, whatever the file is called."""
    text = pipesched.write(OUTCOME, tmp_path / "x.txt", format=name).read_text()
    assert text.startswith("0F0," if "csv" in name else "{")
    assert ("traceEvents" in text) == ("trace" in name)


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


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    """Others may read a result as the umask says, though it was a private file while it was written."""
    mask = os.umask(0o027)
    try:
        path = pipesched.write(OUTCOME, tmp_path / "x.json")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


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


def test_a_plan_with_waits_that_is_read_replays_to_the_same_times() -> None:
    """Without its waits the plan would start the load, and the second forward, sooner."""
    outcome = late_load()
    again = parse(written(outcome), "x").schedule
    replayed = pipesched.schedule_plan(again.problem, again.plan)
    assert list(replayed.start_ticks) == list(again.start_ticks) == list(outcome.schedule.start_ticks)
    content = json.loads(written(outcome))
    del content["waits"]
    free = parse(json.dumps(content), "x").schedule
    assert list(pipesched.schedule_plan(free.problem, free.plan).start_ticks) != list(outcome.schedule.start_ticks)


@given(problems(SETTLED, overlap=True, saving=True), st.randoms(use_true_random=False), st.sampled_from([0, 0.6]))
def test_any_plan_that_is_read_replays_to_the_same_times(problem: Problem, random: Random, save: float) -> None:
    """Orders, lanes and waits of a document are the whole plan: scheduling it again gives the document's times."""
    texts = random_saving_plan(problem, random, split=0.3, pair=0.2, recompute=save / 2, offload=save, wait=0.4)
    outcome = pipesched.Outcome("random", pipesched.schedule_plan(problem, saving_plan_of(problem, texts)))
    again = parse(written(outcome), "x").schedule
    replayed = pipesched.schedule_plan(again.problem, again.plan)
    assert list(replayed.start_ticks) == list(again.start_ticks)
    assert list(replayed.end_ticks) == list(again.end_ticks)
    assert replayed.peak_grains == again.peak_grains


@pytest.mark.parametrize("seed", range(40))
def test_transfers_without_a_length_keep_their_order_in_a_shared_lane(seed: int) -> None:
    """Two devices' transfers at one time come back in the order that they had, which no time tells."""
    random = Random(seed)
    costs: dict[str, Any] = {
        key: [random.randint(0, 1) for _ in range(4)] for key in ("forward", "backward", "offload")
    }
    problem = pipesched.make_problem(devices=4, stages=4, microbatches=5, placement="linear", lanes="pair", **costs)
    texts = random_saving_plan(problem, random, split=0, pair=0, recompute=0, offload=0.8, wait=0.4)
    schedule = pipesched.schedule_plan(problem, saving_plan_of(problem, texts))
    again = parse(written(pipesched.Outcome("random", schedule)), "x").schedule
    assert [[*map(list, pair)] for pair in again.plan.lanes] == [[*map(list, pair)] for pair in schedule.plan.lanes]


def test_a_turn_that_is_no_number() -> None:
    """One message, with the transfer."""
    content = json.loads(written(late_load()))
    first = next(row[0] for row in content["transfers"] if row)
    first["turn"] = "later"
    with pytest.raises(ConfigError, match=f"{first['op']}: 'turn' must be a whole number, not 'later'"):
        parse(json.dumps(content), "x")


@pytest.mark.parametrize(
    ("waits", "message"),
    [
        (5, "'waits' is missing, or of the wrong type"),
        ([5], "'waits' must hold pairs of operations"),
        ([["0L0"]], "'waits' must hold pairs of operations"),
        ([["0L0", 5]], "'waits' must hold pairs of operations"),
        ([["0L0", "now"]], "'now' is no operation"),
        ([["0L0", "0B7"]], "0B7 has a wait edge, but does not stand in the plan"),
        ([["0L1", "0B1"]], "0L1 has a wait edge, but does not stand in the plan"),
    ],
)
def test_malformed_waits(waits: Any, message: str) -> None:
    """Waits that cannot be read are one message with the name of the document."""
    content = {**json.loads(written(late_load())), "waits": waits}
    with pytest.raises(ConfigError, match=message) as caught:
        parse(json.dumps(content), "some.json")
    assert str(caught.value).startswith("some.json: ")


def test_a_broken_wait_is_for_the_check() -> None:
    """Times that ignore a wait edge of the document are read as they stand; the check names them."""
    content = json.loads(written(late_load()))
    load = content["transfers"][0][1]
    assert load["op"] == "0L0"
    load |= {"start": 6, "end": 9}
    outcome = pipesched.read(io.StringIO(json.dumps(content)))
    assert isinstance(outcome, pipesched.Outcome)
    assert "0L0 starts before the end of 0B1, for which the plan makes it wait" in pipesched.check(outcome)
