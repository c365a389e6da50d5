"""Documents of unlike microbatches and of steps beside the second replay; and wrong documents."""

from __future__ import annotations

import json
from fractions import Fraction
from random import Random
from typing import Any

from hypothesis import assume, given, strategies as st

from pipesched import ConfigError, Outcome, make_problem, plan, run, schedule_plan
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse, wrong_claims
from pipesched.pipeline.check.check import violations
from tests.oracle.drawn import Config, configs, random_texts, step_configs
from tests.oracle.replay import Replayed, replay
from tests.oracle.setup import fused, read_setup
from tests.oracle.step_replay import COSTS, Whole, replay_step
from tests.oracle.step_setup import parts, read_step

PLAIN = ("1f1b", "naive", "eager-1f1b", "zb-h1", "zb-h2", "1f1b-overlap", "sequential")


WITH_SLICES, FORWARD_ONLY = ("seq-1f1b", "naive", "sequential"), ("naive", "sequential")


@st.composite
def run_configs(draw: st.DrawFn) -> tuple[str, Config]:
    """A family of one stage a device, and a config for it."""
    slices, forward_only = draw(st.booleans()), draw(st.booleans())
    name = draw(st.sampled_from(FORWARD_ONLY if forward_only else WITH_SLICES if slices else PLAIN))
    return name, draw(configs((None,), slices=slices, forward_only=forward_only))


def written(name: str, config: Config) -> tuple[dict[str, Any], Replayed]:
    """The document of a family's schedule, and what the second replay says of its texts."""
    content = json.loads(dump(document(run(make_problem(**config), name))))
    setup = fused(read_setup(config), config["devices"], range(config["devices"]))
    return content, replay(setup, [[slot["op"] for slot in row] for row in content["devices"]])


@given(run_configs())
def test_documents_beside_the_second_replay(given: tuple[str, Config]) -> None:
    """Every time and metric is the float nearest to the exact one, and the document reads back as it was written."""
    content, replayed = written(*given)
    for slot in (slot for row in content["devices"] for slot in row):
        op = slot["op"].removeprefix("(").partition(";")[0]
        assert (slot["start"], slot["end"]) == (float(replayed.start[op]), float(replayed.end[op]))
    metrics = content["metrics"]
    for key in ("makespan", "span", "ideal", "bubble", "bubble_over_ideal", "bubble_span"):
        assert metrics[key] == float(getattr(replayed, key)), key
    assert metrics["busy"] == [*map(float, replayed.busy)]
    assert metrics["idle"] == [float(replayed.makespan - time) for time in replayed.busy]
    assert metrics["peak_memory"] == [*map(float, replayed.peak)]
    text = dump(content)
    assert dump(document(parse(text, "it"))) == text


@given(run_configs(), st.data())
def test_wrong_documents(given: tuple[str, Config], data: st.DataObject) -> None:
    """The check finds texts of two slots in each other's place that are not alike, and a peak that is too low."""
    content, replayed = written(*given)
    row, device = data.draw(st.sampled_from([(row, device) for device, row in enumerate(content["devices"])]))
    kinds = [next(filter(str.isalpha, slot["op"])) if slot["op"][0] != "(" else "(" for slot in row]
    pairs = [
        (one, other)
        for one in range(len(row))
        for other in range(one)
        if kinds[one] == kinds[other] and _are_unlike(row[one], row[other])
    ]
    changed = data.draw(st.sampled_from(["order", "peak"] if pairs else ["peak"]))
    if changed == "order":
        one, other = data.draw(st.sampled_from(pairs))
        row[one]["op"], row[other]["op"] = row[other]["op"], row[one]["op"]
    else:
        peak = replayed.peak[device]
        assume(peak)
        content["metrics"]["peak_memory"][device] = float(peak * Fraction(3, 4))
    text = dump(content)
    outcome = parse(text, "it")
    assert [*violations(outcome.schedule), *wrong_claims(text, outcome)]


def _are_unlike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two slots last differently, or are slices of one microbatch that take time."""
    lasts = [slot["end"] - slot["start"] for slot in (one, other)]
    same = len({slot["op"].partition(".")[0] for slot in (one, other) if "." in slot["op"]}) == 1
    return abs(lasts[0] - lasts[1]) > 1e-6 or (same and "W" not in one["op"] and min(lasts) > 0)


CHANCES = st.sampled_from([0, 0.5])


def written_step(config: Config, random: Random, split: float = 0, pair: float = 0) -> tuple[dict[str, Any], Whole]:
    """The document of a random plan, and what the second replay says of it."""
    step = read_step(config)
    texts = random_texts(step, random, split=split, pair=pair)
    waits = [(behind, before) for before, behind in texts.waits]
    problem = make_problem(**config)
    schedule = schedule_plan(problem, plan(problem, [*map(list, texts.rows)], waits=waits, network=[*texts.programs]))
    return json.loads(dump(document(Outcome("given", schedule)))), replay_step(step, texts)


def entries(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Everything with times in a document."""
    return [entry for key in ("devices", "network") for row in content[key] for entry in row]


@given(step_configs(), st.randoms(use_true_random=False), CHANCES, CHANCES)
def test_documents_of_steps(config: Config, random: Random, split: float, pair: float) -> None:
    """Every time and metric is the float nearest to the exact one, and the document reads back as it was written."""
    content, whole = written_step(config, random, split, pair)
    for entry in entries(content):
        text = parts(entry["op"])[0]
        assert (entry["start"], entry["end"]) == (float(whole.start[text]), float(whole.end[text]))
    metrics = content["metrics"]
    assert metrics["makespan"] == float(whole.makespan)
    assert metrics["span"] == float(whole.span)
    assert metrics["busy"] == [*map(float, whole.busy)]
    assert metrics["idle"] == [float(whole.makespan - time) for time in whole.busy]
    assert metrics["peak_memory"] == [*map(float, whole.peak)]
    for what in ("activations", "weights", "gradients", "side"):
        assert metrics[f"peak_{what}"] == [*map(float, getattr(whole.peaks, what))], what
    step = metrics["step"]
    assert [step["pipeline"], step["network"]] == [float(whole.pipeline), float(whole.network)]
    assert {key: step[key]["exposed"] for key in COSTS} == {key: float(cost) for key, cost in whole.costs.items()}
    for key in ("gather", "reduce", "tied"):
        assert step[key]["time"] == [float(lane[key]) for lane in whole.lanes]
    assert step["exposed"] == whole.exposed
    text = dump(content)
    assert dump(document(parse(text, "it"))) == text


@given(step_configs(), st.randoms(use_true_random=False))
def test_wrong_documents_of_steps(config: Config, random: Random) -> None:
    """The check finds what lasts too long, a RESHARD at another time, a lower peak, and a shorter pipeline."""
    content, whole = written_step(config, random)
    change = random.choice(["early", "long", "peak", "exposed"])
    if change == "peak":
        device = random.randrange(len(whole.peak))
        assume(whole.peak[device])
        content["metrics"]["peak_memory"][device] = float(whole.peak[device] * Fraction(3, 4))
    elif change == "exposed":
        assume(whole.pipeline)
        content["metrics"]["step"]["pipeline"] = float(whole.pipeline * Fraction(3, 4))
    else:
        entry = random.choice(entries(content))
        assume(entry["start"] >= 1)
        late = -1 if change == "early" else 1
        for key in ["start", "end"] if "RESHARD" in entry["op"] else ["start"] if change == "early" else ["end"]:
            entry[key] += late
    text = dump(content)
    try:
        outcome = parse(text, "it")
    except ConfigError:  # a time that is no sum of costs
        return
    assert [*violations(outcome.schedule), *wrong_claims(text, outcome)]
