"""Documents of whole steps beside the second replay, from the config alone; and wrong documents."""

from __future__ import annotations

import json
from fractions import Fraction
from random import Random
from typing import Any

from hypothesis import assume, given, strategies as st

from pipesched import ConfigError, make_problem, plan, schedule_plan
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse, wrong_claims
from pipesched.pipeline.check import violations
from pipesched.results.outcome import Outcome
from tests.oracle.drawn import Config
from tests.oracle.drawn_step import random_texts, step_configs
from tests.oracle.step_replay import COSTS, Whole, replay_step
from tests.oracle.step_setup import parts, read_step

CHANCES = st.sampled_from([0, 0.5])


def written(config: Config, random: Random, split: float = 0, pair: float = 0) -> tuple[dict[str, Any], Whole]:
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
def test_documents_beside_the_second_replay(config: Config, random: Random, split: float, pair: float) -> None:
    """Every time and metric is the float nearest to the exact one, and the document reads back as it was written."""
    content, whole = written(config, random, split, pair)
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
def test_wrong_documents(config: Config, random: Random) -> None:
    """The check finds what lasts too long, a RESHARD at another time, a lower peak, and a shorter pipeline."""
    content, whole = written(config, random)
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
