"""What is written is what is read: schedules, transfers, units."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import assume, example, given, strategies as st

import pipesched
from pipesched import ConfigError, Inexpressible, NoSchedule, Outcome, Problem, make_problem, schedule_plan
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse
from pipesched.file_formats.chrome_trace import document as chrome_document
from pipesched.file_formats.pytorch_csv import dump as csv_dump, parse as csv_parse
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.problem.quantities import Exact, to_fraction
from pipesched.results.trainers import verdicts
from tests.strategies import SETTLED, Texts, problems as saving_problems, random_saving_plan, saving_plan_of, texts_of

FAMILIES = ("sequential", "naive", "1f1b", "eager-1f1b", "interleaved", "looped-bfs", "list")
times = st.sampled_from([0, 1, 2, 5, Decimal("0.1"), Decimal("0.3"), Decimal("12.75"), Decimal("0.001")])
sizes = st.sampled_from([0, 1, 3, Decimal("0.1"), Decimal("0.7"), Decimal("6.25"), Decimal("0.1234")])
fractions = st.sampled_from([0, 1, Decimal("0.5"), Decimal("0.3"), Decimal("0.1234")])
limits = st.sampled_from([1, 2, 5, Decimal("0.7"), Decimal("3.3"), 100])
labels = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), max_size=5)


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """What make_problem takes, every value in each of its forms."""
    devices, chunks = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    stages = devices * chunks

    def one_or_list(each: st.SearchStrategy[Any], count: int) -> st.SearchStrategy[Any]:
        return each | st.lists(each, min_size=count, max_size=count)

    given: dict[str, Any] = {
        "forward": one_or_list(times, stages), "recompute": one_or_list(times, stages),
        "overlap": one_or_list(times, stages), "p2p": one_or_list(times, stages - 1),
        "offload": one_or_list(times, stages), "reload": one_or_list(times, stages),
        "activation": one_or_list(sizes, stages), "retain": one_or_list(fractions, stages),
        "checkpoint": one_or_list(fractions, stages), "static": one_or_list(sizes, stages),
        "budget": one_or_list(limits, devices), "name": labels, "unit": labels, "time_unit": labels,
    }  # fmt: skip
    chosen = draw(st.fixed_dictionaries({}, optional=given))
    if "offload" not in chosen:
        chosen.pop("reload", None)
    if draw(st.booleans()):
        chosen["backward_input"] = draw(one_or_list(times, stages))
        chosen["backward_weight"] = draw(one_or_list(times, stages))
    elif draw(st.booleans()):
        chosen["backward"] = draw(one_or_list(times, stages))
    return {"devices": devices, "stages": stages, "microbatches": draw(st.integers(1, 6)), **chosen}


@st.composite
def runs(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A family and a random problem for it, in a random placement where the family takes any."""
    values, algorithm = draw(problems()), draw(st.sampled_from(FAMILIES))
    devices, stages = values["devices"], values["stages"]
    if algorithm == "list":
        explicit = st.permutations([*range(devices)] * (stages // devices))
        names = ["auto", "linear", "loop", *(["wave"] if stages % (2 * devices) == 0 else [])]
        names += ["bidirectional"] if stages == devices or stages % (2 * devices) == 0 else []
        values["placement"] = draw(st.sampled_from(names) | explicit)
    return algorithm, values


def outcome_of(algorithm: str, values: dict[str, Any]) -> pipesched.Outcome:
    """The schedule; a budget that holds none makes hypothesis look elsewhere."""
    try:
        return pipesched.run(pipesched.make_problem(**values), algorithm)
    except NoSchedule:
        assume(False)
        raise


# The finest time is a latency that fusing drops, and the bound by memory area falls between two ticks.
FINE_LATENCY = {
    "devices": 3,
    "stages": 6,
    "microbatches": 13,
    "forward": Decimal("0.1"),
    "backward": [0, Decimal("0.5"), Decimal("2.7"), 0, 3, Decimal("0.3")],
    "p2p": [Decimal("0.00000001"), 10, 10, Decimal("2.7"), 10],
    "budget": Decimal("2.7"),
}


@given(saving_problems(SETTLED, overlap=True, saving=True), st.randoms(use_true_random=False))
def test_document_with_transfers_round_trips(problem: Problem, random: Random) -> None:
    """Recomputes, transfers and late loads come back with their times, legal and as written; the plan makes these."""
    texts = random_saving_plan(problem, random, split=0.3, pair=0.2, recompute=0.3, offload=0.6, wait=0.3)
    outcome = pipesched.Outcome("random", schedule_plan(problem, saving_plan_of(problem, texts)))
    text = dump(document(outcome))
    again = parse(text, "x")
    assert dump(document(again)) == text
    assert list(violations(again.schedule)) == []
    before, after = outcome.schedule, again.schedule
    assert (after.peak_memory, after.busy) == (before.peak_memory, before.busy)
    assert (after.recomputed, after.offloaded) == (before.recomputed, before.offloaded)
    replayed = schedule_plan(again.problem, after.plan)
    assert ([*replayed.start_ticks], [*replayed.end_ticks]) == ([*after.start_ticks], [*after.end_ticks])


COSTS = ("forward", "backward_input", "backward_weight", "recompute", "overlap", "p2p", "offload", "reload")


def rationals(values: Sequence[Exact] | None, scale: int = 1) -> list[Fraction] | None:
    """Numbers, ticks or grains in the user's units."""
    return None if values is None else [to_fraction(value) / scale for value in values]


# Fusing weighs the fractions of the stages: the mean, 5617/15000, is no decimal and comes back from its nearest float.
FINE_RETAIN = {"devices": 4, "stages": 12, "microbatches": 1, "retain": [*(10 * [0]), 1, Decimal("0.1234")]}


@given(runs())
@example(("sequential", FINE_LATENCY))
@example(("sequential", FINE_RETAIN))
def test_document_round_trips(run: tuple[str, dict[str, Any]]) -> None:
    """Every start, cost, size and limit is the same rational number after reading; written again, the same text."""
    outcome = outcome_of(*run)
    text = dump(document(outcome))
    again = parse(text, "x")
    assert dump(document(again)) == text
    assert not list(violations(again.schedule))
    before, after = outcome.schedule, again.schedule
    tables: list[list[list[Fraction] | None]] = []
    for schedule in (before, after):
        costs, memory = schedule.problem.costs, schedule.problem.memory
        ticks, grains = schedule.problem.ticks, schedule.problem.grains
        given = [*(getattr(costs, name) for name in COSTS), memory.activation, memory.static, memory.budget]
        times = (schedule.start_ticks, schedule.end_ticks, *(ticks.mean.get(name) for name in COSTS))
        sizes = (grains.largest["activation"], grains.static, grains.budget)
        tables.append(
            [rationals(values) for values in given]
            + [rationals(values, ticks.per_unit) for values in times]
            + [rationals(values, grains.per_unit) for values in sizes]
        )
    assert tables[0] == tables[1]
    held = [
        [size / one.problem.grains.per_unit for size in one.problem.grains.largest["retained"]]
        for one in (before, after)
    ]
    assert held[0] == pytest.approx(held[1], rel=1e-12)  # a mean of fused stages may have more digits than a document
    assert after.fits == before.fits
    assert after.problem.placement == before.problem.placement


@cache
def good_document() -> str:
    problem = pipesched.make_problem(
        devices=2,
        microbatches=2,
        forward=Decimal("1.5"),
        p2p=Decimal("0.1"),
        budget=4,
        backward_input=1,
        backward_weight=2,
    )
    return dump(document(pipesched.run(problem, "list")))


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a document."""
    if path:
        yield path
    if isinstance(content, dict):
        for key, value in content.items():
            yield from places(value, (*path, key))
    if isinstance(content, list):
        for position, value in enumerate(content):
            yield from places(value, (*path, position))


PLACES = list(places(json.loads(good_document())))
NUMBERS = [0, 1, -1, 2, 0.5, 1e300, 1e-300, 10**12, 10**400]
WORDS = [
    "", "0F0", "0B0", "1F1", "(0F0;0B0)OVERLAP_F_B", "auto", "linear", "loop", "bidirectional", "[/x]", "\x1b",
    "\ud800",
]  # fmt: skip
scalars = st.sampled_from([None, True, False, *NUMBERS, *WORDS])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["op", "start", "a"]), inner)
)


def change(content: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        if not isinstance(content, (dict, list)):
            return
        content = content[step]
    content[path[-1]] = value


@given(st.sampled_from(PLACES), values)
@example(("devices", 0), 5)
@example(("devices", 0), None)
@example(("devices",), [[], []])
@example(("problem", "memory", "activation"), 10**400)
@example(("problem", "memory", "activation"), 1e300)
@example(("devices", 0, 0, "start"), 10**400)
def test_any_change_is_read_or_refused(path: tuple[Any, ...], value: Any) -> None:
    """Whatever stands in the place of a value: ConfigError, or a schedule that can be checked, and if good, written."""
    content = json.loads(good_document())
    change(content, path, value)
    try:
        outcome = parse(json.dumps(content), "x")
    except ConfigError:
        return
    if not list(violations(outcome.schedule)):
        text = dump(document(outcome))
        assert dump(document(parse(text, "x"))) == text


@given(st.text(max_size=40) | st.text('[]{}",:0123456789eE+-.tfn', max_size=40))
@example("1e99999999999999999999")
@example('{"format": 1e99999999999999999999}')
@example("[" * 5000)
def test_random_text_is_no_document(text: str) -> None:
    """Random text is refused with ConfigError and nothing else."""
    try:
        parse(text, "x")
    except ConfigError:
        return
    raise AssertionError(f"{text!r} was read as a schedule")


DEVICES = [["0F0", "0F1", "0R1", "0B1", "0B0"], ["1F0", "1F1", "1B1", "1B0"]]
LANES = [["0O0"], ["0L0"], ["1O0"], ["1L0"]]


def content() -> dict[str, Any]:
    """Microbatch 0 is offloaded on both, 0 recomputes microbatch 1."""
    problem = make_problem(
        devices=2, microbatches=2, forward=1, backward=2, offload=0.5, reload=1.5, recompute=0.25, placement="linear"
    )
    plan = saving_plan_of(problem, Texts(DEVICES, LANES, [("0B1", "0L0"), ("1O0", "1F1")]))
    return json.loads(dump(document(Outcome("by hand", schedule_plan(problem, plan)))))  # type: ignore[no-any-return]


def test_transfers_stand_in_the_document() -> None:
    """Each device lists its own transfers in order of time; R is a slot like any other."""
    written = content()
    assert written["transfers"] == [
        [{"op": "0O0", "start": 1, "end": 1.5}, {"op": "0L0", "start": 7.5, "end": 9}],
        [{"op": "1O0", "start": 2, "end": 2.5}, {"op": "1L0", "start": 2.5, "end": 4}],
    ]
    assert written["devices"][0][2] == {"op": "0R1", "start": 2, "end": 2.25}
    assert [slot["op"] for slot in written["devices"][0]] == DEVICES[0]
    assert written["metrics"]["busy"] == [6.25, 6]
    assert written["metrics"]["ideal"] == 6
    several = document(pipesched.run(pipesched.make_problem(devices=2, offload=1), "1f1b", offload="full"))
    assert [one["op"] for one in several["transfers"][0]] == ["0O1", "0L1", "0O2", "0L2"]


@pytest.mark.parametrize(
    ("device", "place", "key", "value", "sentence"),
    [
        (0, 0, "start", 0.75, "0O0 lasts 0.75, not 0.5"),
        (0, 1, "op", "0L1", "0O1 is missing"),
        (1, 0, "op", "0O1", "1O0 is missing"),
        (0, 1, "start", 0, "0L0 starts at 0"),
    ],
)
def test_a_broken_transfer_is_named(device: int, place: int, key: str, value: object, sentence: str) -> None:
    """A document with a wrong time or a wrong transfer is read, and the check says what is wrong."""
    written = content()
    del written["waits"]
    written["transfers"][device][place][key] = value
    assert any(sentence in found for found in violations(parse(json.dumps(written), "x").schedule))


UNEQUAL: dict[str, Any] = {"devices": 2, "microbatches": 3, "sizes": {"work": [3, 1, 2]}}


def test_csv_of_an_order() -> None:
    """PyTorch numbers losses by position: the file does too, and a note says which microbatches to feed it."""
    text = csv_dump(pipesched.run(pipesched.make_problem(**UNEQUAL), "1f1b", order=[1, 2, 0]).schedule)
    assert text == "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n"
    assert text.note == "numbers microbatches as PyTorch runs them, by position: feed it 1, 2, 0, in this order"
    assert texts_of(csv_parse(text, "x.csv")[0])[1] == ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"slices": 2}, "runs whole microbatches, and this schedule cuts each into 2 slices"),
        ({"mode": "forward", "slices": 2}, "trains, and this schedule has forward passes alone"),
    ],
)
def test_what_no_trainer_runs(given: dict[str, Any], said: str) -> None:
    """Slices and forward passes are refused by PyTorch, and by each framework, with the reason."""
    outcome = pipesched.run(pipesched.make_problem(devices=2, microbatches=3, **given), "naive")
    with pytest.raises(Inexpressible, match=f"^PyTorch {said}$"):
        csv_dump(outcome.schedule)
    found = {verdict.trainer: verdict for verdict in verdicts(outcome)}
    assert not any(verdict.takes for verdict in found.values())
    for trainer in found.keys() - ({"zero-bubble"} if given == {"slices": 2} else set()):
        assert said in found[trainer].note


def test_trace_of_slices() -> None:
    """Names have the slice, and arguments the microbatch and the slice; without slices there is no such argument."""
    outcome = pipesched.run(pipesched.make_problem(devices=2, microbatches=1, slices=2), "seq-1f1b")
    events = [event for event in chrome_document(outcome)["traceEvents"] if event["ph"] == "X"]
    assert [event["name"] for event in events if event["tid"] == 1] == ["0F0.0", "0F0.1", "0B0.1", "0B0.0"]
    second = next(event for event in events if event["name"] == "0F0.1")
    assert second["args"] == {"op": "0F0.1", "kind": "F", "stage": 0, "microbatch": 0, "slice": 1}
    whole = pipesched.run(pipesched.make_problem(devices=2, microbatches=1), "1f1b")
    assert not any("slice" in event["args"] for event in chrome_document(whole)["traceEvents"] if event["ph"] == "X")
