"""The space of a config: candidates, precisions, levels of sharding, given values, trainers, and what fits."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from rich.console import Console

import pipesched
from pipesched import ConfigError, Parallelism, SpacePoint, Trial
from pipesched.config.derived import FITS
from pipesched.config.estimate import MIXED
from pipesched.documents.tuning import tuning_document
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.render.tuning import tuning_view
from pipesched.tuning.judged import by_expected, in_order
from pipesched.tuning.prune import REASONS, PrunedPoints, sift
from pipesched.tuning.search import SpaceSearch
from pipesched.tuning.space import FIELDS, OF_PRECISION, OF_SHARDS, Space, read_space
from tests.render.test_tuning import text
from tests.tuning.made import MADE, layout, trial, trusted
from tests.tuning.spaces import (
    ALGORITHMS,
    DENSE_FIRST,
    EXPERTS,
    GPU,
    LLAMA,
    SPACE as USUAL,
    Config,
    enumerated,
    fastest,
    held,
    is_sure,
)

FAMILIES = {one.name: one for one in pipesched.algorithms()}
ALL = {"batch": {"sequence": 8192, "global": 128, "micro": "auto"}, "training": {"recompute": "auto"}}
SMALL: Config = {
    "model": LLAMA,
    "hardware": {**GPU, "memory": 80},
    "parallel": {"gpus": 8, "tensor": 2, "pipeline": [2, 4], "chunks": 1, "context": 1},
    "batch": {"sequence": 1024, "global": 16},
}


def space(algorithms: list[str] | None = None, *, beyond: bool = True, **more: Any) -> Space:
    """A small space with changes; on this GPU nobody has measured anything."""
    return read_space(None, {**SMALL, **more}, algorithms, beyond=beyond)


def test_all_candidates_of_a_dense_model() -> None:
    """llama-3-70b on 64 H100: 64 heads, a width of 28672, 80 layers, nodes of 8; no experts."""
    found = read_space(None, {"model": "llama-3-70b", "hardware": "h100-sxm", "parallel": {"gpus": 64}, **ALL})
    assert found.candidates == {
        "parallel.tensor": (1, 2, 4, 8),
        "parallel.pipeline": (1, 2, 4, 8, 16, 32, 64),
        "parallel.chunks": (1, 2, 3, 4, 5, 6, 7, 8),
        "parallel.context": (1, 2, 4, 8, 16, 32, 64),
        "parallel.expert": (1,),
        "parallel.expert_tensor": (1,),
        "batch.micro": (1, 2, 4, 8),
        "training.recompute": ("none", "selective", "full"),
    }
    usual = tuple(name for name in FAMILIES if not FAMILIES[name].required and name != "seq-1f1b")  # it is for slices
    assert found.algorithms == usual
    assert found.points == 4 * 7 * 8 * 7 * 4 * 3 * len(usual)


def test_all_candidates_of_a_model_with_experts() -> None:
    """mixtral-8x7b on 48 GPUs: 8 experts, 32 layers; a pipeline has no more devices than items."""
    parallel = {"gpus": 48, "expert_tensor": "auto", "tensor": "auto", "pipeline": "auto"}
    found = read_space(None, {"model": "mixtral-8x7b", "hardware": "h100-sxm", "parallel": parallel, **ALL})
    assert found.candidates["parallel.tensor"] == (1, 2, 4, 8)
    assert found.candidates["parallel.pipeline"] == (1, 2, 3, 4, 6, 8, 12, 16, 24)
    assert found.candidates["parallel.context"] == (1, 2, 4, 8, 16)
    assert found.candidates["parallel.expert"] == (1, 2, 4, 8)
    assert found.candidates["parallel.expert_tensor"] == (1, 2, 4, 8)


def test_given_candidates_stay_in_their_order_once_each() -> None:
    """Numbers, lists with repeats, and numbers of layers to recompute."""
    training = {"recompute": [{"full": 2}, "none", "full", {"full": 2}, "none"]}
    found = space(parallel={**SMALL["parallel"], "tensor": [4, 1, 4], "chunks": 3}, training=training)
    assert found.candidates["batch.micro"] == (1,)
    assert found.candidates["parallel.tensor"] == (4, 1)
    assert found.candidates["parallel.chunks"] == (3,)
    assert found.candidates["training.recompute"] == (2, "none", "full")
    layouts = list(found.layouts())
    assert layouts[0] == Parallelism(4, 2, 3, 1, 1, 1, 1, 2)
    assert len(set(layouts)) == len(layouts) == 2 * 2 * 3
    assert layouts[0].recompute_value == {"full": 2}
    assert found.setup(layouts[0]).training.full_layers == 2
    assert found.setup(layouts[0]).training.recompute == "full"


def test_points_are_each_either_dropped_or_kept_once() -> None:
    """Whatever the model: every layout with every algorithm, exactly once."""
    for model in (LLAMA, EXPERTS, DENSE_FIRST):
        parallel = {"gpus": 8, "tensor": [1, 2, 3], "pipeline": [1, 2, 4], "chunks": [1, 2, 3, 7], "expert": [1, 2, 3]}
        found = space(["1f1b", "zb-v", "interleaved", "list", "hanayo", "gpipe"], model=model, parallel=parallel)
        points: list[SpacePoint] = []
        for one in sift(found):
            if isinstance(one, PrunedPoints):
                assert one.reason in REASONS
                assert one.text
                points += [SpacePoint(one.layout, name) for name in one.algorithms]
            else:
                points.append(one.point)
        assert len(points) == found.points
        assert {*points} == {SpacePoint(layout, name) for layout in found.layouts() for name in found.algorithms}
        assert len({point.key for point in points}) == len(points)


def test_levels_and_ranks_that_are_searched() -> None:
    """All four levels, among all ranks with the same parameters and among those of a node beside tensor ranks."""
    sizes = {"gpus": 32, "tensor": [1, 2, 16], "pipeline": 2, "chunks": 1, "context": 1}
    found = space(["1f1b"], parallel={**sizes, "shard_ranks": "auto"}, training={"shard": "auto"})
    levels = ("none", "optimizer", "gradients", "weights")
    assert found.candidates["training.shard"] == levels
    assert found.points == 3 * 4 * 2
    layouts = [*found.layouts()]
    assert [layout.shard_ranks for layout in layouts if layout.shard == "weights"] == [None, 8, None, 4, None, 0]
    asked = {(one.tensor, one.shard): found.setup(one) for one in layouts if one.shard_ranks is None}
    assert asked[2, "weights"].shard_group().ranks == 8
    pruned = [one for one in sift(found) if isinstance(one, PrunedPoints)]
    reasons = {(one.layout.tensor, one.layout.shard, one.layout.shard_ranks): one.reason for one in pruned}
    for tensor, ranks in ((1, 8), (2, 4)):
        assert [reasons.get((tensor, level, ranks)) for level in levels] == ["dominance", None, None, None]
    assert {reason for (tensor, *_), reason in reasons.items() if tensor == 16} == {"divisibility"}
    given = space(["1f1b"], parallel={**sizes, "shard_ranks": [4, 3]}, training={"shard": "weights"})
    assert given.candidates["parallel.shard_ranks"] == (4, 3)
    assert given.points == 3 * 2
    plain = space(["1f1b"], parallel=sizes)
    assert {"training.shard", "parallel.shard_ranks"}.isdisjoint(plain.candidates)
    assert not any("None" in SpacePoint(layout, "1f1b").key for layout in plain.layouts())


def test_sequence_parallelism_goes_with_tensor_parallelism() -> None:
    """Unless the config says otherwise, for all layouts."""
    tensor = {**SMALL["parallel"], "tensor": [1, 2]}
    each = [space(parallel=tensor), space(parallel={**tensor, "sequence": False})]
    flags = [{one.setup(layout).parallel.sequence for layout in one.layouts()} for one in each]
    assert flags == [{True, False}, {False}]


def test_given_data_parallel_ranks_leave_only_their_layouts() -> None:
    """The others do not divide."""
    found = space(["1f1b"], parallel={**SMALL["parallel"], "data": 2})
    pruned = [one for one in sift(found) if isinstance(one, PrunedPoints)]
    assert [(one.layout.pipeline, one.reason) for one in pruned] == [(4, "divisibility")]
    with pytest.raises(ConfigError, match="has 1 data-parallel ranks"):
        found.setup(pruned[0].layout)


def test_spaces_are_the_same_only_where_all_counts_alike() -> None:
    """Names do not count; each number of the model, of the hardware and of training does, and so do candidates."""
    assert space(["gpipe", "naive", "1F1B"]).algorithms == ("naive", "1f1b")  # by aliases, once each
    same = [space(), space(name="mine"), space(trust={"beyond": True, "like": "torchtitan"}, beyond=False)]
    others = [
        space(model={**LLAMA, "vocab_size": 32001}),
        space(hardware={**GPU, "memory": 79}),
        space(hardware={**GPU, "memory": 80, "nic": 26}),
        space(parallel={**SMALL["parallel"], "tensor": 1}),
        space(parallel={**SMALL["parallel"], "pipeline": [4, 2]}),
        space(batch={**SMALL["batch"], "global": 32}),
        space(batch={**SMALL["batch"], "sequence": 2048}),
        space(training={"fused_loss": True}),
        space(training={"efficiency": {"network": 0.5}}),
        space(["1f1b"]),
        space(forward=3),
        space(beyond=False),
    ]
    assert len({one.digest for one in same}) == 1
    assert len({one.digest for one in (*same, *others)}) == 1 + len(others)


def test_a_layout_reads_as_a_text() -> None:
    """Sizes of 1 are left out, but for tensor and pipeline."""
    assert str(Parallelism(1, 2, 1, 1, 1, 1, 1, "none")) == "tensor 1, pipeline 2"
    assert (
        str(Parallelism(1, 2, 3, 1, 4, 1, 2, 5))
        == "tensor 1, pipeline 2, chunks 3, expert 4, micro 2, recompute 5 layers"
    )
    assert str(Parallelism(2, 1, 1, 1, 1, 1, 1, "full")) == "tensor 2, pipeline 1, recompute full"
    assert str(layout(2, 4, shard="weights", shard_ranks=8)) == "tensor 2, pipeline 4, shard weights over 8 ranks"
    assert str(layout(2, 4, shard="none")) == "tensor 2, pipeline 4, shard none"
    assert len((*FIELDS, *OF_SHARDS, OF_PRECISION)) == len(Parallelism._fields)


SPACE: Config = {
    "model": {**LLAMA, "num_hidden_layers": 4},
    "hardware": "h100-sxm",
    "parallel": {"gpus": 8, "tensor": 1, "pipeline": [1, 2], "chunks": 1, "context": 1},
    "batch": {"sequence": 1024, "global": 16},
    "training": {"precision": ["bf16", "fp8"]},
}


def with_precision(value: Any, **more: Any) -> Config:
    """The space with other precisions."""
    return {**SPACE, "training": {"precision": value}, **more}


def test_rows_have_a_precision() -> None:
    """Each as its estimate says; the config of the best has its own, and without several there is no such key."""
    tuning = pipesched.tune(None, ["1f1b"], top=100, beyond=True, **SPACE)
    assert tuning.space == 4 == tuning.simulated + sum(tuning.pruned.values())
    assert tuning.best is not None
    assert tuning.best.step is not None
    again = pipesched.estimate(tuning.config)
    assert again.setup.training.precision == tuning.best.point.layout.precision
    assert again.step.time == pytest.approx(tuning.best.step.time, rel=1e-9)
    assert held(again) == pytest.approx(tuning.best.memory, rel=1e-9)
    assert {row["precision"] for row in tuning_document(tuning)["rows"]} <= {"bf16", "fp8"}
    assert ", fp8" in str(tuning.best.point.layout) or "bf16" in str(tuning.best.point.layout)
    alone = pipesched.tune(None, ["1f1b"], beyond=True, **with_precision("fp8"))
    assert "precision" not in tuning_document(alone)["rows"][0]


def test_precisions_are_judged_as_estimates_are_compared() -> None:
    """What is expected of rows in 8 and in 16 bits stands in the ratio of both estimates, and a note says by what."""
    tuning = pipesched.tune(None, ["1f1b"], top=100, beyond=True, **SPACE)
    rates = {}
    for row in tuning.rows:
        assert row.trust is not None
        rates[row.point.layout.precision, row.point.layout.pipeline] = row.trust.tokens_per_second_per_gpu.expected
    one, other = (
        pipesched.estimate(None, **{**SPACE, "parallel": {"gpus": 8, "tensor": 1}, "training": {"precision": name}})
        for name in ("fp8", "bf16")
    )
    assert one.against(other).expected == pytest.approx(rates["bf16", 1] / rates["fp8", 1])
    assert tuning.notes == (MIXED,)
    assert pipesched.tune(None, ["1f1b"], beyond=True, **with_precision("fp8")).notes == ()


def test_auto_is_what_the_gpu_has() -> None:
    """bf16 and all precisions of few bits; of an A100 bf16 alone."""
    found = read_space(None, with_precision("auto", hardware="gb200")).candidates["training.precision"]
    assert found == ("bf16", "fp8", "fp8-blockwise", "mxfp8", "nvfp4")
    old = read_space(None, with_precision("auto", hardware="a100-80gb-sxm")).candidates["training.precision"]
    assert old == ("bf16",)
    assert "training.precision" not in read_space(None, with_precision("bf16")).candidates


SHARDED: Config = {
    "model": {**LLAMA, "num_hidden_layers": 4},
    "hardware": {**GPU, "memory": 7, "gpus_per_node": 2},
    "parallel": {"gpus": 8, "tensor": 1, "pipeline": 2, "chunks": [1, 2], "context": 1, "shard_ranks": "auto"},
    "batch": {"sequence": 1024, "global": 16},
    "training": {"shard": "auto"},
}


@cache
def tuned() -> pipesched.Tuning:
    """The answer for that space; on this GPU nobody has measured anything."""
    return pipesched.tune(None, ["1f1b", "interleaved"], top=100, **SHARDED)


@pytest.mark.slow
def test_rows_say_what_is_divided() -> None:
    """By the level, and the ranks as a number; all that hold the same where nothing is divided."""
    tuning = tuned()
    assert tuning.space == 2 * 4 * 2 * 2 == tuning.simulated + sum(tuning.pruned.values())
    content = json.loads(json.dumps(tuning_document(tuning)))
    found = {(row["shard"], row["shard_ranks"]) for row in content["rows"]}
    assert ("weights", 2) in found or ("weights", 4) in found
    assert {ranks for _, ranks in found} <= {2, 4}
    assert all(ranks == 4 for level, ranks in found if level == "none")
    assert "shard" not in json.dumps(tuning_document(MADE)["rows"])


def test_levels_that_nobody_measured_are_left_out() -> None:
    """Of dense models nobody divided gradients alone; what lies outside is told apart."""
    config: dict[str, Any] = {
        **SHARDED,
        "hardware": "h100-sxm",
        "parallel": {"gpus": 8, "tensor": 2, "pipeline": 2, "chunks": 1, "context": 1},
        "batch": {"sequence": 4096, "global": 8, "micro": 2},
    }
    tuning = pipesched.tune(None, ["1f1b"], **config)
    assert tuning.pruned["evidence"] == 1
    assert {row.point.layout.shard for row in tuning} <= {"none", "optimizer", "weights"}
    for one in tuning.beyond:
        assert [field.field for field in one.outside] == ["shard"]
        assert one.measure.startswith(f"a step of this model with shard {one.trial.point.layout.shard}")
    free = pipesched.tune(None, ["1f1b"], beyond=True, **config)
    assert free.space == 4
    assert free.pruned["evidence"] == 0


def test_the_table_has_columns_for_them() -> None:
    """Layouts of other levels are other lines; without a level there is no such column."""
    rows = [
        trial(layout(2, 4, shard="weights", shard_ranks=8), "1f1b", 9_000.0, 40.0),
        trial(layout(2, 4, shard="optimizer"), "1f1b", 8_900.0, 60.0),
        trial(layout(2, 4, shard="none"), "1f1b", 8_800.0, 70.0),
    ]
    shown = []
    for one in (replace(MADE, rows=tuple(rows), published=(), beyond=(), measure=None, tied=1), MADE):
        with (console := Console(width=120, color_system=None)).capture() as capture:
            console.print(tuning_view(one))
        shown.append(capture.get())
    assert all(word in shown[0] for word in (" weights ", " optimizer ", "N shard_ranks", " all "))
    assert "shard" not in shown[1]


BUDGET = "3.5"  # GB for states and activations
MEMORY = float(Fraction(BUDGET) * Fraction(104, 100) + Fraction(3, 4))  # of a GPU that leaves so much
PLENTY: Config = {**USUAL, "hardware": {**GPU, "memory": 80}}


def rows(**more: Any) -> list[tuple[Any, ...]]:
    """The best points of the space, with their memory."""
    found = pipesched.tune(None, ALGORITHMS, top=1000, **more)
    return [(row.point.key, row.step, row.memory, row.spare) for row in found.rows]


@pytest.mark.nightly
@pytest.mark.slow
def test_a_budget_is_obeyed_as_a_smaller_gpu_would_be() -> None:
    """The best points are those of a GPU whose memory leaves that budget, and of them the same ones are simulated."""
    given = pipesched.tune(None, ALGORITHMS, **PLENTY, budget=BUDGET, fits="likely")
    smaller = pipesched.tune(None, ALGORITHMS, **{**USUAL, "hardware": {**GPU, "memory": MEMORY}}, fits="likely")
    assert given.rows[0].step == smaller.rows[0].step
    assert [row.point for row in given.rows] == [row.point for row in smaller.rows]
    assert given.pruned == smaller.pruned
    assert given.pruned["memory"] > 0
    assert given.capacity == MEMORY
    free = pipesched.tune(None, ALGORITHMS, **PLENTY)
    assert free.rows[0].rate > given.rows[0].rate


@pytest.mark.nightly
@pytest.mark.parametrize("static", [1, 6])
@pytest.mark.slow
def test_rows_beside_side_work_are_those_of_estimate(static: int) -> None:
    """What is pruned beside side work is worse or does not fit: the best is the best of all points."""
    parallel = {**USUAL["parallel"], "pipeline": 2}
    side = [{"name": "vision", "forward": 1, "backward": 2, "static": static, "activation": "100MB"}]
    config = {**USUAL, "parallel": parallel, "side": side}
    names = ["1f1b", "interleaved", "zb-h1"]
    found = pipesched.tune(None, names, beyond=True, top=1000, **config)
    fitting = [one.estimate for one in enumerated(config, names) if one.estimate and one.estimate.fits]
    assert bool(fitting) == bool(found.rows) == (static < 6)
    assert (found.pruned["memory"] > 0) == (static == 6)
    if fitting:
        assert fastest(found).rate == max(one.step.tokens_per_second_per_gpu for one in fitting if is_sure(one))
    assert "as it is given" in found.notes[-1]


@pytest.mark.slow
def test_changes_keep_a_given_budget() -> None:
    """What is suggested where a given budget is too small fits it, and not only the GPU."""
    sizes = {"tensor": 1, "pipeline": 4, "chunks": 1}
    config = {**PLENTY, "parallel": {**PLENTY["parallel"], **sizes}, "batch": {**PLENTY["batch"], "micro": 2},
              "training": {}}  # fmt: skip
    found = pipesched.estimate(None, "1f1b", **config, budget=2.3)
    assert not found.fits
    assert pipesched.estimate(None, "1f1b", **config).fits
    helping = pipesched.config.estimate.changes(found)
    assert helping
    assert all(change.estimate.fits and change.estimate.outcome.schedule.fits for change in helping)
    budgets = [limit for change in helping for limit in change.estimate.problem.memory.budget or ()]
    assert {to_fraction(limit) for limit in budgets} == {Fraction("2.3")}


@pytest.mark.nightly
@pytest.mark.slow
def test_a_given_placement_is_that_of_every_point() -> None:
    """Algorithms run the stages of that placement or do not apply, as `estimate` says."""
    config = {**PLENTY, "parallel": {**PLENTY["parallel"], "pipeline": 4, "chunks": 2}, "placement": "v"}
    found = pipesched.tune(None, ALGORITHMS, **config, top=1000)
    ones = [one for one in enumerated(config, ALGORITHMS) if one.estimate is not None]
    assert {row.point.algorithm for row in found.rows} <= {one.algorithm for one in ones}
    assert {one.algorithm for one in ones} < set(ALGORITHMS)
    assert fastest(found).rate == max(one.estimate.step.tokens_per_second_per_gpu for one in ones if one.estimate)
    assert pipesched.estimate(found.config).step == found.rows[0].step


@pytest.mark.nightly
def test_messages_queue_in_each_point() -> None:
    """Rows are what `estimate` says of them with the same queues; a single device has none, as its config says."""
    parallel = {"gpus": 4, "tensor": 2, "pipeline": [1, 2], "chunks": 2}
    config = {**PLENTY, "training": {"recompute": "full"}, "parallel": parallel}
    found = pipesched.tune(None, ["interleaved", "1f1b"], **config, beyond=True, top=100, messages="device")
    free = pipesched.tune(None, ["interleaved", "1f1b"], **config, beyond=True, top=100)
    rates = {row.point.key: row.rate for row in free.rows}
    known = [row for row in found.rows if row.point.key in rates]
    assert {row.point.layout.pipeline for row in known} == {1, 2}
    assert all((row.rate < rates[row.point.key]) == (row.point.layout.pipeline == 2) for row in known)
    confirmed = pipesched.estimate(found.config)
    assert confirmed.step == found.rows[0].step


EVEN: Config = {
    "model": {**LLAMA, "num_hidden_layers": 12},
    "hardware": {**GPU, "memory": 80},
    "parallel": {"gpus": 4, "tensor": 1, "pipeline": 4, "chunks": 2, "context": 1},
    "training": {"layout": "equal"},
}


@pytest.mark.parametrize(("microbatches", "is_refused"), [(7, True), (9, False)])
def test_groups_that_megatron_runs(microbatches: int, is_refused: bool) -> None:
    """Those of the shortest schedule, where it takes them, else the next best; the config of the winner names them."""
    config: Config = {**EVEN, "batch": {"sequence": 1024, "global": microbatches}}
    free, own = (pipesched.tune(None, ["interleaved"], only=only, beyond=True, **config) for only in (None, "megatron"))
    assert free.best is not None
    assert own.best is not None
    assert ("megatron" not in free.best.runs_in) == is_refused
    assert "megatron" in own.best.runs_in
    assert (own.best.rate < free.best.rate) == is_refused
    assert ("group_size" in own.config) == is_refused
    again = pipesched.estimate(own.config)
    assert again.step == own.best.step
    assert "--pipeline-model-parallel-size 4" in pipesched.hand_over(again.outcome, "megatron")


TIGHT: Config = {**USUAL, "hardware": {**USUAL["hardware"], "memory": 5.25}}
NAMES = ["1f1b", "interleaved", "zb-h1"]


def row(rate: float, memory: float, chunks: int = 1) -> Trial:
    """A row whose rate is expected to be as estimated, of a GPU of 80 GB."""
    return trusted(trial(layout(2, 4, chunks), "interleaved", rate, memory), mean=0.0)


def searched(fits: str = FITS[0]) -> SpaceSearch:
    """A search that asks for rows that fit so."""
    space = replace(read_space(None, USUAL, ALGORITHMS), fits=fits)
    return SpaceSearch(space, {}, lambda _: None, lambda _: None)


def test_faster_rows_that_may_not_fit_have_room_at_the_end() -> None:
    """At most three of them in place of the last that surely fit; slower ones fill what is left."""
    sure, faster = [row(100 - n, 60) for n in range(6)], [row(120 - n, 79) for n in range(5)]
    slow = row(50, 79)
    assert in_order(searched(), [*sure, *faster, slow], 5) == [*sure[:2], *faster[:3]]
    assert in_order(searched(), [*sure, slow], 5) == sure[:5]
    assert in_order(searched(), [*sure, slow], 9) == [*sure, slow]
    assert in_order(searched(), [*sure, *faster], 1) == sure[:1]
    assert in_order(searched(FITS[1]), [*sure, *faster], 3) == faster[:3]


def test_where_nothing_surely_fits_the_likeliest_is_first() -> None:
    """Then the others by what is expected; the text says it."""
    likely, fast = row(90, 78.5), row(120, 79.5)
    search = searched()
    ranked = sorted([fast, row(110, 79), likely], key=search.order)
    assert in_order(search, ranked, 3) == [likely, fast, row(110, 79)]
    shown = text(tuning_view(replace(MADE, rows=(likely, fast), tied=1)), 100)
    assert "Nothing surely fits; row 1 is the likeliest to: 79.3 GB, 80 % 77.7 to 80.5." in shown
    shown = text(tuning_view(replace(MADE, rows=(likely, fast), tied=1, fits="likely")), 100)
    assert "Row 1 may not fit: 79.3 GB" in shown


@pytest.mark.nightly
@pytest.mark.slow
def test_a_search_finds_the_best_that_surely_fits() -> None:
    """A GPU just too small for the fastest: it is marked, with its gain, and first where likely is enough."""
    every = [one.estimate for one in enumerated(TIGHT, NAMES) if one.estimate and one.estimate.fits]
    rates = [max(one.step.tokens_per_second_per_gpu for one in some) for some in (every, [*filter(is_sure, every)])]
    assert rates[0] > rates[1]
    found, likely = (pipesched.tune(None, NAMES, beyond=True, fits=fits, **TIGHT) for fits in FITS)
    assert found.best is not None
    assert found.best.sure
    assert fastest(found).rate == rates[1]
    assert pipesched.estimate(found.config).step == found.best.step
    doubtful = [one for one in found if one.may_not_fit and one.rate > rates[1]]
    assert max(one.rate for one in doubtful) == rates[0]
    assert [not one.sure for one in found] == sorted(not one.sure for one in found)
    assert "may not fit; if it does, +" in text(tuning_view(found), 100)
    assert max(one.rate for one in likely) == rates[0]
    assert [*map(by_expected, likely)] == sorted(map(by_expected, likely))
    said = read_space(None, {**TIGHT, "trust": {"beyond": True, "fits": "likely"}}, NAMES)
    assert (said.fits, said.beyond) == ("likely", True)
    assert [tuning_document(one)["fits"] for one in (found, likely)] == [*FITS]


@pytest.mark.nightly
def test_a_given_budget_leaves_a_gpu_its_memory() -> None:
    """A limit below the memory: what keeps it surely fits, as the GPU has more."""
    config = {**USUAL, "hardware": {**USUAL["hardware"], "memory": 80}}
    for row in pipesched.tune(None, NAMES, beyond=True, budget="5.5", **config):
        assert row.fits
        assert row.sure
        assert row.margin > 70
