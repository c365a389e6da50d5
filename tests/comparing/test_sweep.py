"""A sweep: one field of the problem at several values."""

from __future__ import annotations

from contextlib import nullcontext
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from pipesched.comparing.compare import compare
from pipesched.comparing.sweep import sweep, sweep_points, varied_field
from pipesched.config.load import load, load_values
from pipesched.documents.comparison import sweep_document, sweep_of
from pipesched.errors import ConfigError
from pipesched.pipeline.plan.step import Shard
from pipesched.pipeline.problem.declared import BY_KEY, NUMERIC
from pipesched.pipeline.problem.shapes import Count, Field
from pipesched.render.comparison import sweep_lines, sweep_plot
from pipesched.results.comparison import Entry


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("microbatches", "microbatches"),
        ("forward", "costs.forward"),
        ("costs.forward", "costs.forward"),
        ("backward_input", "costs.backward_input"),
        ("recompute", "costs.recompute"),
        ("budget", "memory.budget"),
        ("memory.budget", "memory.budget"),
    ],
)
def test_field_by_any_of_its_names(name: str, key: str) -> None:
    """A field is named by its key, or by the parameter; each value is that parameter's override."""
    field = varied_field(name)
    assert field == BY_KEY[key]
    halves = {"backward_weight": 1} if name == "backward_input" else {}
    points = sweep_points(load_values(None, halves), field, [4, 8])
    assert points == [(value, load(None, **halves, **{field.name: value})) for value in (4, 8)]


@pytest.mark.parametrize("field", NUMERIC, ids=lambda field: str(field.key))
def test_every_varied_field_can_be_swept(field: Field) -> None:
    """Each field that takes numbers can be swept, a half of the backward with the other, a way back with the way."""
    given: dict[str, Any] = {}
    if field.name in ("backward_input", "backward_weight"):
        given = {"backward_input": 3, "backward_weight": 3}
    elif field.name == "reload":
        given = {"offload": 3}
    elif field.name == "rounds":
        given = {"mode": "forward"}
    elif field.name == "receive":
        given = {"messages": "rank"}
    values = (
        [8, 16]
        if field.name in ("stages", "microbatches", "layers")
        else [0.5, 1]
        if not isinstance(field.shape, Count) and field.name != "slices"
        else [1, 2]
    )
    points = sweep_points(load_values(None, given), field, values)
    assert points == [(value, load(None, **{**given, field.name: value})) for value in values]
    others = {name: value for name, value in given.items() if name != field.name}
    found = sweep(None, field.name, values, "naive", overrides=others)
    assert (found.field, [point.value for point in found]) == (field.key, values)


def test_sweep_goes_on_top_of_the_overrides() -> None:
    """The overrides hold at every point, and the swept field replaces an override of the same field."""
    points = sweep_points(load_values(None, {"devices": 2, "microbatches": 99}), varied_field("microbatches"), [1, 2])
    assert [(problem.devices, problem.microbatches) for _, problem in points] == [(2, 1), (2, 2)]


def test_a_point_is_the_comparison_at_its_value() -> None:
    """Each point holds what `compare` gives for that problem, with the options of all and of each algorithm."""
    config, each = "devices: 4\nstages: 8\n", {"interleaved": {"group_size": 4}}
    found = sweep(config, "devices", [2, 3, 4], ["naive", "interleaved"], each=each, lifo=True)
    assert len(found) == 3
    for point in found:
        alone = compare(load(config, devices=point.value), ["naive", "interleaved"], each=each, lifo=True)
        assert [told(entry) for entry in point.comparison] == [told(entry) for entry in alone]
    assert [point.comparison["interleaved"].applicable for point in found] == [True, False, True]


def told(entry: Entry) -> tuple[object, ...]:
    """All that an entry tells."""
    return entry.algorithm, entry.metrics, entry.reason, entry.options


def test_values_are_numbers_as_users_read_them() -> None:
    """However a number was given, a point has it as an int or a float."""
    found = sweep_points(load_values(None, {}), varied_field("activation"), ["2", 1.0, Decimal("0.5"), Fraction(1, 3)])
    values = [value for value, _ in found]
    assert values == [2, 1, 0.5, 1 / 3]
    assert [type(value) for value in values] == [int, int, float, float]
    assert found[3][1].memory.activation[0] == Fraction(1, 3)


def test_words_of_a_shard() -> None:
    """Levels, and numbers and words of stages ahead, go on top of what else the config says of a shard."""
    config = "devices: 2\nmemory: {weights: 8, states: 32}\nshard: {level: weights, ranks: 8, ahead: 2}\n"
    levels = sweep_points(load_values(config, {}), varied_field("shard"), ["none", "gradients", "weights"])
    assert [(word, problem.shard) for word, problem in levels] == [
        ("none", Shard("none", 8)), ("gradients", Shard("gradients", 8)), ("weights", Shard("weights", 8, 2)),
    ]  # fmt: skip
    swept = sweep(config, "shard.ahead", [1, "3", "full"], "1f1b")
    assert ([point.value for point in swept], swept.field, swept.of_words) == ([1, 3, "full"], "shard.ahead", True)
    ahead = [entry.outcome.problem.sharding.ahead for point in swept for entry in point.comparison if entry.outcome]
    assert ahead == [1, 3, "full"]
    assert [x for x, _, _ in sweep_lines(swept, "makespan")["1f1b"]] == [0, 1, 2]
    assert sweep_of(sweep_document(swept)).points[2].value == "full"
    assert sweep_of(sweep_document(sweep(config, "shard", ["none", "weights"], "1f1b"))).field == "shard"


@pytest.mark.parametrize(
    ("field", "given", "is_refused"),
    [
        ("shard", {"shard": "weights"}, True), ("shard", {"shard": {"level": "weights"}}, True),
        ("shard", {"shard": Shard("weights")}, True), ("shard", {"shard": {"ranks": 2}}, False),
        ("shard.ranks", {"shard": "weights"}, False), ("shard.ranks", {"shard": {"ranks": 3}}, True),
    ],
)  # fmt: skip
def test_another_entry_of_a_shard_is_no_conflict(field: str, given: dict[str, Any], is_refused: bool) -> None:
    """An override of the entry that is varied is refused; another one holds at every point."""
    with pytest.raises(ConfigError) if is_refused else nullcontext():
        sweep(None, field, ["none"] if field == "shard" else [1], "1f1b", overrides=given)


def test_rules_of_feeding() -> None:
    """A sweep over `order` has a point for each rule, on one problem; entries are named by their algorithm alone."""
    config = "devices: 4\nsizes: {work: [1, 2, 3, 4, 5, 6]}\n"
    swept = sweep(config, "order", ["given", "verl", "best"], ["1f1b", "naive"], overrides={"forward": 1})
    assert (swept.field, swept.of_words) == ("order", True)
    found = [[entry.outcome.schedule.makespan for entry in point.comparison if entry.outcome] for point in swept]
    assert found == [[103, 117], [98, 117], [96, 117]]
    assert [entry.label for point in swept for entry in point.comparison] == ["1f1b", "naive"] * 3
    assert sweep_lines(swept, "makespan")["1f1b"] == [(0, 103, True), (1, 98, True), (2, 96, True)]
    assert sweep_plot(swept, "makespan") is None


def test_a_sweep_says_where_it_is() -> None:
    """The listener hears each algorithm with the value of its point, in turn."""
    heard: list[str] = []
    sizes = {"work": [1, 2, 3, 4]}
    sweep(
        "devices: 2", "order", ["given", "best"], ["1f1b", "naive"], overrides={"sizes": sizes}, listener=heard.append
    )
    assert heard == ["1f1b at given", "naive at given", "1f1b at best", "naive at best"]


def test_group_sizes_are_varied() -> None:
    """Group sizes and best, read back as they are; other algorithms stand beside them as ever."""
    base = {"devices": 4, "stages": 8, "microbatches": 9, "forward": 1, "backward": 2}
    values = [4, 5, 6, 7, 8, 9, "best"]
    swept = sweep("devices: 4", "group_size", values, ["interleaved", "1f1b"], overrides=base)
    assert [point.value for point in swept] == values
    found = [(point.comparison["interleaved"].metrics or {})["makespan"] for point in swept]
    assert found == [74, 63, 65, 68, 73, 63, 63]
    assert {(point.comparison["1f1b"].metrics or {})["makespan"] for point in swept} == {72}
    assert [point.value for point in sweep_of(sweep_document(swept))] == values
    assert (
        "deadlocks"
        in next(iter(sweep("devices: 4", "group_size", [2], "interleaved", overrides=base))).comparison[0].reason
    )
