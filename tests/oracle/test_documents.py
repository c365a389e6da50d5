"""Documents of microbatches that differ beside the second replay, from the config alone; and wrong documents."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from hypothesis import assume, given, strategies as st

from pipesched import make_problem, run
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse, wrong_claims
from pipesched.pipeline.check import violations
from tests.oracle.drawn import Config, configs
from tests.oracle.replay import Replayed, replay
from tests.oracle.setup import fused, read_setup

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
