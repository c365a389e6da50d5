"""What an estimate says: its document, its tables, the trace of a number, its config, and changes that fit."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import pipesched
from pipesched import ConfigError, Estimate
from pipesched.config.estimate import changes, judge_of
from pipesched.config.load import load_config
from pipesched.documents.tuning import estimate_document
from pipesched.estimation.config_text import config_text
from pipesched.estimation.derived import derive
from pipesched.estimation.items import GB
from pipesched.estimation.setup import Setup
from pipesched.estimation.trace import trace
from pipesched.estimation.trust.evidence import evidence_base
from pipesched.estimation.trust.inside import memory_margin
from pipesched.render.estimate import cut_lines, estimate_view, fit_lines, sentence, stage_table
from tests.estimation.setups import setup


def estimate(given: Setup, algorithm: str = "1f1b") -> Estimate:
    """The estimate of a setup."""
    return Estimate(pipesched.run(derive(given, {}), algorithm))


def test_the_document_repeats_itself_in_other_words() -> None:
    """Stages are sums of items, devices of stages, and everything is JSON."""
    found = json.loads(json.dumps(estimate_document(estimate(setup()))))
    items, stages = found["items"], found["stages"]
    assert [item["kind"] for item in items] == ["embedding", *["layer"] * 16, "head"]
    for key in ("forward", "backward_input", "backward_weight", "activation"):
        assert sum(stage[key] for stage in stages) == pytest.approx(sum(item[key] for item in items), abs=1e-9)
    states = sum(device[key] for device in found["devices"] for key in ("weights", "gradients", "optimizer"))
    assert states == pytest.approx(sum(item["states"] for item in items), rel=1e-12)
    assert found["problem"]["costs"]["forward"] == [stage["forward"] for stage in stages]
    for device in found["devices"]:
        parts = (device[key] for key in ("weights", "gradients", "optimizer", "activations", "logits", "fixed"))
        assert device["total"] == pytest.approx(sum(parts), rel=1e-12)
        assert device["budget"] == 80
    assert found["layout"] == "Et*4|t*4|t*4|t*4L" or found["layout"].count("|") == 3


def test_what_does_not_fit_has_no_speed() -> None:
    """Neither rate nor MFU stand below its tables, but by how much which device misses its memory."""
    shown = []
    for memory in (80, 2):
        with (console := Console(width=100, color_system=None)).capture() as capture:
            console.print(estimate_view(estimate(setup(memory=memory))))
        shown.append(capture.get())
    for word in ("tokens/s/GPU", "MFU", "10^12 tokens"):
        assert [word in text for text in shown] == [True, False]
    assert ["does not fit" in text for text in shown] == [False, True]


TRACED = ("forward", "backward_input", "backward_weight", "weights", "gradients", "optimizer", "activation")


@pytest.mark.parametrize("training", [{}, {"recompute": "full", "full_layers": 2}, {"recompute": "full"}])
def test_a_trace_adds_up(training: dict[str, object]) -> None:
    """The parts of a number are the number, and those of a part, one level deeper, are the part."""
    found = estimate(setup({"num_hidden_layers": 12}, training=training))
    for kind, what in product(("stage", "layer"), TRACED):
        traced = trace(found, f"{kind}.1.{what}")
        top = [part.value for part in traced.parts if not part.depth]
        assert sum(top) == pytest.approx(traced.value, rel=1e-9)
        own = found.stages[1] if kind == "stage" else found.items.each[2]
        exact = own.time(what) / 1000 if "ward" in what else float(own.size(what)) / 1e9
        assert traced.value == pytest.approx(exact, rel=1e-3)
        assert all(part.formula for part in traced.parts)


@pytest.mark.parametrize(
    "address",
    [f"device.0.{what}" for what in ("weights", "activations", "logits", "fixed", "total", "optimizer_step")]
    + ["device.3.logits", "stage.0.p2p", "step.mfu", "step.time", "head.forward", "embedding.weights"],
)
def test_every_number_has_an_address(address: str) -> None:
    """What the tables and the document show can be traced; the value is theirs."""
    found = estimate(setup())
    traced = trace(found, address)
    kind, *_, what = address.split(".")
    if kind == "device" and what != "optimizer_step":
        size = getattr(found.devices[int(address.split(".")[1])], what)
        assert traced.value == pytest.approx(float(size) / 1e9, rel=1e-12)
        assert sum(part.value for part in traced.parts) == pytest.approx(traced.value, rel=1e-9)
    if kind == "step":
        assert traced.value == getattr(found.step, what)


@pytest.mark.parametrize("algorithm", ["zb-v", "chimera"])
def test_the_written_config_is_the_same_problem(algorithm: str) -> None:
    """It is read back as a problem of the same schedule, but for what rounding to 0.001 ms and GB changes."""
    found = estimate(setup(parallel={"chunks": 2}), algorithm)
    again = pipesched.run(pipesched.load(config_text(found)), algorithm)
    assert again.schedule.makespan == pytest.approx(found.step.pipeline, rel=1e-6)
    for mine, theirs in zip(again.schedule.memory, found.outcome.schedule.memory, strict=True):
        assert float(mine) == pytest.approx(float(theirs), abs=0.05)


@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        ("seq-1f1b", {"slices": {"count": 3, "overhead": "0.1ms"}}),
        ("1f1b", {"sizes": {"activation": [2, 1] * 8, "message": [1, 3] * 8}, "kv": 0.1}),
    ],
)
def test_the_written_config_has_microbatches_that_differ(algorithm: str, more: dict[str, Any]) -> None:
    """Slices, sizes, and keys and values that are kept: the same schedule, and the same memory."""
    estimated = pipesched.estimate(GIVEN.replace(", chunks: 2", ""), algorithm, **more)
    again, found = pipesched.run(pipesched.load(config_text(estimated)), algorithm), estimated.outcome.schedule
    assert float(again.schedule.makespan) == pytest.approx(float(found.makespan), rel=1e-6)
    assert [*map(float, again.schedule.memory)] == pytest.approx([*map(float, found.memory)], rel=1e-6)


@pytest.mark.parametrize("width", [50, 80])
def test_no_number_is_cut(width: int) -> None:
    """On a narrow screen titles take two lines and parts are left out, but never the sum and what there is of it."""
    console = Console(width=width)
    with console.capture() as capture:
        console.print(estimate_view(estimate(setup(training={"shard": "weights"}))))
    text = capture.get()
    assert "…" not in text
    head = next(line.split() for line in text.splitlines() if line.split()[:2] == ["device", "weights"])
    assert head[-2:] == ["sum", "of"]
    assert ("logits" in head) == (width >= 80)


@pytest.mark.parametrize("given", [{"static": 80}, {"static": 0}, {"weights": 50}])
def test_what_stays_as_given_counts(given: dict[str, Any]) -> None:
    """A device holds what its schedule does, beside what the GPU itself takes; parts of it are not derived."""
    found = pipesched.estimate(GIVEN, **given)
    held = [float(device.total - device.fixed) / GB for device in found.devices]
    assert held == pytest.approx([*map(float, found.outcome.schedule.memory)])
    assert found.fits == found.outcome.schedule.fits
    with pytest.raises(ConfigError, match="was given"):
        trace(found, "device.0.weights")


GIVEN = """
model: llama-3-8b
hardware: h100-sxm
parallel: {gpus: 16, tensor: 2, pipeline: 4, chunks: 2}
batch: {sequence: 4096, global: 32}
"""


@pytest.mark.parametrize(
    "more",
    [
        "algorithm: {interleaved: {group_size: 8}}",
        "algorithm: {1f1b: {offload: 1}}\nlanes: device\ncosts: {reload: 7}",
        "algorithm: {list: {priority: alap, tie: bfs}}\nplacement: [0, 1, 2, 3, 3, 2, 1, 0]",
        "algorithm: dualpipe-v\ncosts: {overlap: 20}",
        "algorithm: zb-h1\nmemory: {retain: 0.4, budget: 60}",
        "algorithm: 1f1b\ncosts: {backward: 11}",
    ],
)
def test_the_written_config_has_all_that_was_given(more: str) -> None:
    """Options of the algorithm, a placement, lanes, and keys of costs and memory that derive from nothing."""
    text = GIVEN + more
    found = pipesched.estimate(text)
    written = config_text(found)
    again = pipesched.load(written)
    theirs = found.problem
    assert again.memory.retain == theirs.memory.retain
    assert again.lanes == theirs.lanes
    assert (again.costs.split, again.costs.overlap) == (theirs.costs.split, theirs.costs.overlap)
    config = load_config(written, {})
    assert config.algorithm is not None
    assert config.algorithm.name == found.outcome.algorithm
    schedule = pipesched.run(config.problem, config.algorithm.name, **config.algorithm.options).schedule
    assert schedule.makespan == found.outcome.schedule.makespan
    assert schedule.fits == found.outcome.schedule.fits
    assert ("as given" in written) == ("costs" in more or "memory" in more)


def test_a_step_has_the_tokens_of_the_microbatches_that_are_scheduled() -> None:
    """Fewer microbatches than the batch says take less time: rates must not be those of the whole batch."""
    whole, part = pipesched.estimate(GIVEN), pipesched.estimate(GIVEN, microbatches=4)
    assert (whole.tokens, part.tokens) == (32 * 4096, 8 * 4096)
    assert part.flops * 4 == whole.flops
    rate = part.tokens / (part.step.time / 1000) / 16
    assert part.step.tokens_per_second_per_gpu == pytest.approx(rate, rel=1e-12)
    assert part.step.mfu < whole.step.mfu
    assert "0.03277 million tokens a step" in sentence(part)
    assert "microbatches: 4  # of a step of 8 sequences" in config_text(part)
    [traced] = trace(part, "step.tokens_per_second_per_gpu").parts
    assert traced.formula.startswith("32768 tokens")


def test_stages_show_what_is_scheduled() -> None:
    """Costs and activations that are given stand in the table and in the document, instead of derived ones."""
    found = pipesched.estimate(GIVEN + "costs: {forward: 100}\nmemory: {activation: 2}")
    for stage in estimate_document(found)["stages"]:
        assert (stage["forward"], stage["activation"]) == (100, 2)
    for number, cells in enumerate(zip(*(column.cells for column in stage_table(found).columns), strict=True)):
        assert "100.000" in cells, number
        assert "2.000 GB" in cells, number


def test_changes_fit_as_surely_as_rows_of_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most three that fit, each key once; what surely fits comes first, the fastest of it, what may not says so."""
    found, high = estimate(setup(memory=9, parallel={"tensor": 1, "pipeline": 2})), evidence_base().memory.high
    assert not found.fits
    listed = changes(found)
    assert 1 <= len(listed) <= 3
    for change in listed:  # tensor parallelism that is doubled twice is one change, to four times what it was
        assert [part.partition(":")[0] for part in change.text.split(" and ")] == [*change.values], change.text
        assert change.estimate.fits
    order = [(not change.sure, -change.rate) for change in listed]
    assert order == sorted(order)
    assert changes(estimate(setup())) == []
    sure = [change.sure for change in listed]
    assert sure == [memory_margin(one.estimate, high) >= 0 for one in listed]
    assert sure[0]
    assert not all(sure)
    monkeypatch.setattr("pipesched.render.estimate.changes", lambda _: listed)
    assert [line.plain.endswith("; may not fit") for line in [*fit_lines(found)][1:]] == [not one for one in sure]


def test_an_estimate_that_may_not_fit_says_so() -> None:
    """In its view, with the interval of the fullest device, as `sure` does in the document."""
    most = max(float(device.total) / GB for device in estimate(setup()).devices)
    shown = []
    for memory in (80, round(most + 0.1, 1)):
        found = estimate(setup(memory=memory))
        assert found.fits
        with (console := Console(width=100, color_system=None)).capture() as capture:
            console.print(estimate_view(replace(found, trust=judge_of()[0].trust(found))))
        shown.append(": may not fit" in capture.get())
    assert shown == [False, True]


def test_the_config_of_the_tutorial_is_up_to_date() -> None:
    """`estimate zb-h1 -c configs/llama-3-70b.yaml -o derived.yaml` writes it."""
    root = Path(__file__).parent.parent.parent
    found = pipesched.estimate(root / "configs" / "llama-3-70b.yaml", "zb-h1")
    written = (root / "docs" / "tutorial" / "llama-3-70b" / "derived.yaml").read_text(encoding="utf-8")
    assert config_text(found) == written


def test_changes_that_cannot_fit_are_not_cut_into_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where weights and states alone are many times the memory, every answer is known without a cut of the model."""
    found = estimate(setup(memory=1))
    monkeypatch.setattr("pipesched.config.estimate.outline", lambda *_: pytest.fail("the model is cut"))
    assert changes(found) == []


def test_the_cut_that_was_chosen() -> None:
    """An open cut is told with what is known of it; a given cut is not."""
    outcome = pipesched.run(derive(setup(), {}), "1f1b")
    (line,) = cut_lines(outcome)
    assert outcome.cut is not None
    assert line == f"cut  {', '.join(map(str, outcome.cut.layout))} of 16 layers: the best of all {outcome.cut.all:,}"
    layout = tuple(stage.count("layer") for stage in estimate(setup()).stages)
    given = replace(setup(), training=replace(setup().training, layout=layout))
    assert not [*cut_lines(estimate(given).outcome)]
