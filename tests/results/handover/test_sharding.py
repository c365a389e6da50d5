"""What data-parallel ranks divide, handed over: options of a framework, or why it cannot; side work nowhere."""

from __future__ import annotations

from typing import Any

import pytest

import pipesched
from pipesched.errors import Inexpressible
from pipesched.results.outcome import Outcome
from tests.results.handover.test_hand_over import of_model, pasted, remarks

FRAMEWORKS = ("megatron", "torchtitan", "deepspeed", "primus", "zero-bubble")
OVERLAPPED = "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather"
WHOLE = "PyTorch gathers a stage when it is first needed, and keeps the next 3 of a rank whole"
FSDP_ONLY = "torchtitan shards optimizer states only together with weights (FSDP)"


def made(algorithm: str = "1f1b", **options: Any) -> Outcome:
    """A schedule of four devices with a step."""
    return pipesched.run(pipesched.make_problem(devices=4, microbatches=8, **options), algorithm)


def sharded(level: str) -> Outcome:
    """One whose ranks divide what a level says, eight together."""
    return made(reduce=3, optimizer=2, shard={"level": level, "ranks": 8})


@pytest.mark.parametrize(
    ("framework", "level", "said"),
    [
        ("megatron", "none", None),
        ("megatron", "optimizer", OVERLAPPED),
        ("zero-bubble", "optimizer", OVERLAPPED),
        (
            "primus",
            "optimizer",
            "use_distributed_optimizer: true, overlap_grad_reduce: true, overlap_param_gather: true",
        ),
        ("deepspeed", "none", '"zero_optimization": {"stage": 0}'),
        ("deepspeed", "optimizer", '"zero_optimization": {"stage": 1}'),
        ("torchtitan", "none", None),
        ("torchtitan", "optimizer", FSDP_ONLY),
        (
            "torchtitan",
            "gradients",
            "--parallelism.data_parallel_shard_degree=8 --parallelism.fsdp_reshard_after_forward=never;"
            " data_parallel_replicate_degree is the number of such groups",
        ),
        (
            "torchtitan",
            "weights",
            "--parallelism.data_parallel_shard_degree=8 --parallelism.fsdp_reshard_after_forward=never;"
            " data_parallel_replicate_degree is the number of such groups",
        ),
    ],
)
def test_without_a_model(framework: str, level: str, said: str | None) -> None:
    """Where no model says how many ranks there are, the options stand in a remark beside the usual text."""
    text, plain = pipesched.hand_over(sharded(level), framework), pipesched.hand_over(made(), framework)
    added = [] if said is None else [f"shard {level}: {said}"]
    added += [WHOLE] * (level == "weights")
    assert (pasted(text), remarks(text)) == (pasted(plain), [*remarks(plain), *added])


def test_weights_are_freed_behind_a_forward_only_where_the_plan_does_so() -> None:
    """`gather: each` is "always", for which the schedule gathers once a microbatch; any other plan is "never"."""
    for gather, policy in (("each", "always"), ("ahead", "never")):
        outcome = made(gather=4, shard={"level": "weights", "ranks": 2, "gather": gather})
        assert f"--parallelism.fsdp_reshard_after_forward={policy};" in pipesched.hand_over(outcome, "torchtitan")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_levels_that_a_framework_lacks(framework: str) -> None:
    """Gradients and weights are divided in the pipelines of torchtitan alone."""
    for level, what in (("gradients", "gradients"), ("weights", "gradients and weights")):
        if framework != "torchtitan":
            with pytest.raises(Inexpressible, match=f"divides no {what} among data-parallel ranks in its pipelines"):
                pipesched.hand_over(sharded(level), framework)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_side_work(framework: str) -> None:
    """No framework has it."""
    with pytest.raises(Inexpressible, match="has no side work in its schedules"):
        pipesched.hand_over(made(side=[{"forward": 2}]), framework)


def test_a_step_does_not_hide_the_order() -> None:
    """A schedule with optimizers among its slots is that of its family all the same; any other is a CSV."""
    split = {"forward": 1, "backward_input": 1, "backward_weight": 1}
    outcome = made("zb-h1", **split, gather=1, reduce=1, optimizer=1)
    assert "--enable-zero-bubble" in pipesched.hand_over(outcome, "zero-bubble")


def options(text: str) -> list[str]:
    """The options of torchtitan on data parallelism."""
    words = [word.removeprefix("--parallelism.") for word in pasted(text).split()]
    return [word for word in words if word.startswith(("data_parallel", "fsdp"))]


@pytest.mark.parametrize(
    ("shard", "ranks", "expected"),
    [
        ("none", None, ["data_parallel_replicate_degree=16", "data_parallel_shard_degree=1"]),
        ("optimizer", None, ["data_parallel_replicate_degree=16", "data_parallel_shard_degree=1"]),
        (
            "gradients",
            None,
            ["data_parallel_replicate_degree=1", "data_parallel_shard_degree=16", "fsdp_reshard_after_forward=never"],
        ),
        (
            "weights",
            8,
            ["data_parallel_replicate_degree=2", "data_parallel_shard_degree=8", "fsdp_reshard_after_forward=never"],
        ),
    ],
)
def test_torchtitan_of_a_model(shard: str, ranks: int | None, expected: list[str]) -> None:
    """Groups that divide, how many there are, and whether weights are freed behind a forward."""
    parallel = {} if ranks is None else {"shard_ranks": ranks}
    text = pipesched.hand_over(of_model(parallel=parallel, shard=shard), "torchtitan")
    assert options(text) == expected
    assert (FSDP_ONLY in remarks(text)) == (shard == "optimizer")


def test_torchtitan_counts_ranks_that_share_a_sequence_apart() -> None:
    """It shards over them too, beside the degree that it is given."""
    text = pipesched.hand_over(of_model(parallel={"context": 2, "shard_ranks": 8}, shard="weights"), "torchtitan")
    assert options(text)[:2] == ["data_parallel_replicate_degree=2", "data_parallel_shard_degree=4"]
    with pytest.raises(Inexpressible, match="over all ranks that share a sequence"):
        pipesched.hand_over(of_model(parallel={"context": 2, "shard_ranks": 1}, shard="weights"), "torchtitan")


def test_others_of_a_model() -> None:
    """Megatron-LM overlaps, DeepSpeed has a stage; groups of some ranks are Megatron-LM's alone."""
    whole, part = of_model(shard="optimizer"), of_model(parallel={"shard_ranks": 8}, shard="optimizer")
    assert pasted(pipesched.hand_over(whole, "megatron")).endswith(OVERLAPPED)
    assert "overlap_param_gather: true" in pipesched.hand_over(whole, "primus")
    assert '"zero_optimization": {"stage": 1}' in pipesched.hand_over(whole, "deepspeed")
    assert '"zero_optimization": {"stage": 0}' in pipesched.hand_over(of_model(shard="none"), "deepspeed")
    groups = "groups of 8 ranks divide them: --num-distributed-optimizer-instances 2"
    assert groups in remarks(pipesched.hand_over(part, "megatron"))
    with pytest.raises(Inexpressible, match="among all 16 data-parallel ranks, and here groups of 8 do"):
        pipesched.hand_over(part, "deepspeed")


def test_without_shard_all_is_as_before() -> None:
    """A model that says nothing of `shard` has the options of its optimizer alone."""
    text = pipesched.hand_over(of_model(), "megatron")
    assert "--use-distributed-optimizer" in text
    assert "overlap" not in text
