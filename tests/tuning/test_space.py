"""The space of a config: candidates that are given or found, the points they make, and when two spaces are the same."""

from __future__ import annotations

from typing import Any

import pytest

from pipesched.errors import ConfigError
from pipesched.estimation.model import divisors
from pipesched.pipeline.plan.step import LEVELS
from pipesched.schedulers.registry import FAMILIES, family
from pipesched.tuning.prune import REASONS, PrunedPoints, sift
from pipesched.tuning.space import FIELDS, OF_PRECISION, OF_SHARDS, Layout, Space, SpacePoint, read_space
from tests.tuning.spaces import DENSE_FIRST, EXPERTS, GPU, LLAMA, Config

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
    usual = tuple(name for name in FAMILIES if not family(name).required and name != "seq-1f1b")  # it is for slices
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


def test_what_is_searched_without_being_asked_for() -> None:
    """Ways of parallelism are, but for experts split in themselves; micro and recompute are the usual ones."""
    found = read_space(None, {**SMALL, "parallel": {"gpus": 8}, "model": EXPERTS})
    assert found.candidates["parallel.expert"] == (1, 2, 4, 8)
    assert found.candidates["parallel.expert_tensor"] == (1,)
    assert found.candidates["batch.micro"] == (1,)
    assert found.candidates["training.recompute"] == ("none",)
    assert found.candidates["parallel.tensor"] == (1, 2, 4, 8)


def test_given_candidates_stay_in_their_order_once_each() -> None:
    """Numbers, lists with repeats, and numbers of layers to recompute."""
    training = {"recompute": [{"full": 2}, "none", "full", {"full": 2}, "none"]}
    found = space(parallel={**SMALL["parallel"], "tensor": [4, 1, 4], "chunks": 3}, training=training)
    assert found.candidates["parallel.tensor"] == (4, 1)
    assert found.candidates["parallel.chunks"] == (3,)
    assert found.candidates["training.recompute"] == (2, "none", "full")
    layouts = list(found.layouts())
    assert layouts[0] == Layout(4, 2, 3, 1, 1, 1, 1, 2)
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
    assert found.candidates["training.shard"] == ("none", "optimizer", "gradients", "weights")
    assert found.points == 3 * 4 * 2
    layouts = [*found.layouts()]
    assert [layout.shard_ranks for layout in layouts if layout.shard == "weights"] == [None, 8, None, 4, None, 0]
    asked = {(one.tensor, one.shard): found.setup(one) for one in layouts if one.shard_ranks is None}
    assert asked[2, "weights"].shard_group().ranks == 8
    pruned = [one for one in sift(found) if isinstance(one, PrunedPoints)]
    reasons = {(one.layout.tensor, one.layout.shard, one.layout.shard_ranks): one.reason for one in pruned}
    for tensor, ranks in ((1, 8), (2, 4)):
        assert [reasons.get((tensor, level, ranks)) for level in LEVELS] == ["dominance", None, None, None]
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
    assert str(Layout(1, 2, 1, 1, 1, 1, 1, "none")) == "tensor 1, pipeline 2"
    assert (
        str(Layout(1, 2, 3, 1, 4, 1, 2, 5)) == "tensor 1, pipeline 2, chunks 3, expert 4, micro 2, recompute 5 layers"
    )
    assert str(Layout(2, 1, 1, 1, 1, 1, 1, "full")) == "tensor 2, pipeline 1, recompute full"
    assert len((*FIELDS, *OF_SHARDS, OF_PRECISION)) == len(Layout._fields)


@pytest.mark.parametrize(("number", "found"), [(1, (1,)), (12, (1, 2, 3, 4, 6, 12)), (49, (1, 7, 49)), (13, (1, 13))])
def test_divisors(number: int, found: tuple[int, ...]) -> None:
    assert divisors(number) == found
