"""Problems derived from setups: stages are the sums of their items, for every family that cuts them anew."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import pipesched
from pipesched.errors import ConfigError, NotApplicable
from pipesched.estimation.communication import is_across
from pipesched.estimation.derived import SetupCutter, derive
from pipesched.estimation.items import GB, Items
from pipesched.estimation.parameters import layer_flops
from pipesched.estimation.result import Estimate
from pipesched.estimation.setup import Setup
from pipesched.pipeline.problem.quantities import to_fraction
from tests.estimation.setups import LLAMA, setup

FAMILIES = ("1f1b", "naive", "zb-h1", "interleaved", "zb-v", "dualpipe-v", "chimera", "list")


def estimate(given: Setup, algorithm: str = "1f1b") -> Estimate:
    """The estimate of a setup."""
    return Estimate(pipesched.run(derive(given, {}), algorithm))


@pytest.mark.parametrize("algorithm", FAMILIES)
def test_stages_are_the_sums_of_their_items(algorithm: str) -> None:
    """Whatever a family cuts: each item once, in order; times in ms, memory in GB, the head's logits with it."""
    given = setup(parallel={"chunks": 2})
    found = estimate(given, algorithm)
    problem, items = found.problem, Items(found.setup)
    assert [stage.begin for stage in found.stages] == [0, *(stage.end for stage in found.stages[:-1])]
    assert found.stages[-1].end == len(items)
    for number, stage in enumerate(found.stages):
        held = items.each[stage.begin : stage.end]
        for key in ("forward", "backward_input", "backward_weight"):
            column = getattr(problem.costs, key)
            assert to_fraction(column[number]) == Fraction(sum(item.time(key) for item in held), 1000)
        kept = sum((item.size("activation") for item in held), Fraction(0)) / GB
        assert to_fraction(problem.memory.activation[number]) == kept
        logits = items.logits if stage.end == len(items) else 0
        static = sum((item.states for item in held), Fraction(0)) + logits
        assert to_fraction(problem.memory.static[number]) == static / GB


@pytest.mark.parametrize("algorithm", [name for name in FAMILIES if name != "list"])  # which obeys the budget
def test_what_fits_is_the_same_for_the_schedule_and_the_devices(algorithm: str) -> None:
    """The budget of the problem is the GPU's memory less what is fixed, so both say the same of every device."""
    for memory in (12, 16, 20, 24, 80):
        found = estimate(setup(parallel={"chunks": 2}, memory=memory), algorithm)
        over = {number for number, device in enumerate(found.devices) if not device.fits}
        assert over == set(found.outcome.schedule.over_budget)


@pytest.mark.parametrize("memory", [7, 8, 9, 10, 11, 12])
def test_a_cut_fits_where_its_schedule_does(memory: int) -> None:
    """It counts whole bytes, of which five ranks that share the optimizer have parts."""
    found = estimate(setup(parallel={"gpus": 40}, batch={"size": 80}, memory=memory))
    assert any(device.optimizer.denominator > 1 for device in found.devices)
    assert found.fits == (not found.outcome.schedule.over_budget)


def test_memory_of_a_device_adds_up() -> None:
    """1F1B holds as many microbatches as stages are behind; 0.75 GB and 4 % of the rest are fixed."""
    found = estimate(setup())
    for number, device in enumerate(found.devices):
        stage = found.stages[number]
        assert device.activations == (4 - number) * stage.size("activation")
        rest = device.weights + device.gradients + device.optimizer + device.activations + device.logits
        assert device.fixed == 750_000_000 + rest * Fraction(4, 100)
        assert device.total == rest + device.fixed
        assert device.weights == 2 * device.parameters
        assert device.gradients == 4 * device.parameters


def test_the_step_adds_up() -> None:
    """Time is the pipeline, exposed communication and the optimizer; rates follow from it."""
    found = estimate(setup(parallel={"gpus": 32}))
    step = found.step
    assert step.time == pytest.approx(step.pipeline + step.communication + step.optimizer, rel=1e-12)
    assert step.pipeline == found.outcome.schedule.makespan
    assert step.communication > 0
    assert step.optimizer > 0
    tokens = 16 * 4096
    assert step.tokens_per_second_per_gpu == pytest.approx(tokens / (step.time / 1000) / 32, rel=1e-12)
    assert step.mfu == pytest.approx(step.model_tflops_per_gpu / 1000, rel=1e-12)
    assert step.hfu == step.mfu


def test_recompute_counts_in_hfu_and_in_the_input_gradient() -> None:
    """Full recompute keeps the inputs of layers, adds a forward to I, and is a part of HFU only."""
    plain, full = estimate(setup()), estimate(setup(training={"recompute": "full"}))
    half = estimate(setup(training={"recompute": "full", "full_layers": 2}))
    layer = plain.items.each[1]
    for number in range(4):
        three, stages = plain.stages[number], (full.stages[number], half.stages[number])
        assert stages[0].time("backward_input") == pytest.approx(
            three.time("backward_input") + 4 * layer.time("forward"), abs=8
        )
        assert stages[1].time("backward_input") == three.time("backward_input") + 2 * layer.time("forward")
        freed = layer.size("activation") - layer.size("checkpoint")
        assert stages[0].size("activation") == three.size("activation") - 4 * freed
        assert stages[1].size("activation") == three.size("activation") - 2 * freed
    assert plain.step.hfu == plain.step.mfu
    assert full.step.hfu / full.step.mfu == pytest.approx(4 / 3, rel=0.03)
    assert plain.step.hfu / plain.step.mfu < half.step.hfu / half.step.mfu < full.step.hfu / full.step.mfu


DEEPSEEK: dict[str, Any] = {  # a dense layer, then layers of experts, then an MTP layer
    **LLAMA,
    "num_hidden_layers": 8,
    "intermediate_size": 2048,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 2048,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
}


def test_recompute_of_so_many_layers_is_that_of_the_slowest_of_each_stage() -> None:
    """Layers need not be alike: as many as a stage has are all of them, fewer are the slowest."""
    layout = (2, 2, 2, 2)
    plain, full, most, one = (
        estimate(setup(DEEPSEEK, training={"recompute": recompute, "full_layers": layers, "layout": layout}))
        for recompute, layers in (("none", None), ("full", None), ("full", 100), ("full", 1))
    )
    for number in range(3):  # the last stage has the MTP layer, which is none of its layers
        mine, theirs = most.stages[number], full.stages[number]
        assert mine.size("activation") == theirs.size("activation")
        assert mine.time("backward_input") == pytest.approx(theirs.time("backward_input"), abs=4)
    dense, sparse = plain.items.each[1:3]
    assert dense.size("activation") < sparse.size("activation")
    assert dense.time("forward") < sparse.time("forward")
    for number, layer in ((0, sparse), (1, sparse)):
        mine, theirs = one.stages[number], plain.stages[number]
        assert mine.time("backward_input") == theirs.time("backward_input") + layer.time("forward")
        freed = layer.size("activation") - layer.size("checkpoint")
        assert mine.size("activation") == theirs.size("activation") - freed
    assert sum(term.value for term in most.stages[0].terms("activation")) == most.stages[0].size("activation")


@pytest.mark.parametrize(("width", "slower"), [(65536, True), (256, False)])
def test_a_stage_takes_no_less_with_a_layer_more(width: int, slower: bool) -> None:
    """The cut into stages needs that, also where the layers that are recomputed are far from alike."""
    layers = {"intermediate_size": width, "first_k_dense_replace": 3}
    items = Items(setup({**DEEPSEEK, **layers}, training={"recompute": "full", "full_layers": 2}))
    assert items.is_first_slower == slower
    for begin in range(len(items) - 1):
        for end in range(begin + 2, len(items) + 1):
            whole = items.stage(begin, end)
            for part in (items.stage(begin + 1, end), items.stage(begin, end - 1)):
                assert part.work <= whole.work
                assert part.size("activation") <= whole.size("activation")


def test_recompute_of_an_mtp_layer_counts_in_hfu() -> None:
    """Its forward runs again like that of every other layer; where so many layers of a stage do, it does not."""
    one, two = (
        estimate(setup({**DEEPSEEK, "num_nextn_predict_layers": count}, training={"recompute": "full"}))
        for count in (1, 2)
    )
    model, tokens = one.setup.model, one.setup.tokens_of_step
    each = layer_flops(model, 4096, experts=True).forward
    assert two.flops_again - one.flops_again == tokens * each
    assert one.flops_again == tokens * (8 * each + layer_flops(model, 4096, experts=False).forward)
    layers = estimate(setup(DEEPSEEK, training={"recompute": "full", "full_layers": 100}))
    assert layers.flops_again == one.flops_again - tokens * each
    unfused = estimate(setup(DEEPSEEK, training={"recompute": "selective", "flash_attention": False}))
    assert unfused.flops_again == tokens * 9 * layer_flops(model, 4096, experts=True).core


def test_recompute_is_an_operation_or_a_cost_never_both() -> None:
    """A setup that recomputes refuses recompute as an operation; one that does not has what it needs."""
    plain = pipesched.run(derive(setup(), {}), "1f1b", recompute="full")
    assert plain.schedule.recomputed
    with pytest.raises(NotApplicable, match=r"training\.recompute"):
        pipesched.run(derive(setup(training={"recompute": "full"}), {}), "1f1b", recompute="full")
    with pytest.raises(NotApplicable, match=r"training\.recompute"):
        pipesched.solve(derive(setup(training={"recompute": "full"}), {}), recompute=True)


def test_what_is_given_counts_instead_of_what_is_derived() -> None:
    """Costs and memory beside a model replace its own; a list holds for its number of stages only."""
    problem = derive(setup(), {"p2p": 7, "budget": 50, "microbatches": 5})
    assert problem.costs.p2p == (7, 7, 7)
    assert problem.memory.budget == (50,) * 4
    assert problem.microbatches == 5
    assert pipesched.run(problem, "zb-v").problem.costs.p2p == (7,) * 7
    listed = derive(setup(), {"forward": [1, 2, 3, 4]})
    assert pipesched.run(listed, "1f1b").problem.costs.forward == (1, 2, 3, 4)
    with pytest.raises(NotApplicable):
        pipesched.run(listed, "zb-v")


def test_a_frontier_tries_budgets_of_many_digits() -> None:
    """Budgets of the frontier are peaks in bytes: exact numbers, for which the stages are cut anew."""
    problem = derive(setup(batch={"size": 4}), {})
    found = pipesched.frontier(problem, time_limit=3)
    budgets = [point.budget for point in found]
    assert len(budgets) > 1
    assert budgets == sorted(budgets)
    exact = replace(problem, memory=replace(problem.memory, budget=(46.54088192,) * 4))
    assert pipesched.run(exact, "1f1b").problem.memory.budget == (46.54088192,) * 4


def test_all_cuts_have_the_same_ticks() -> None:
    """Also where every time is whole: a frontier compares the ticks of cuts for different budgets."""
    whole = dict.fromkeys(("forward", "backward", "recompute", "offload"), 1) | {"p2p": 0}
    for given in ({}, whole):
        assert pipesched.run(derive(setup(), given), "1f1b").problem.ticks.per_unit == 1000


def test_too_many_microbatches_are_the_fault_of_the_batch() -> None:
    """Unless they were given themselves."""
    with pytest.raises(ConfigError, match=r"batch\.global: 4 stages x 9,000,000 microbatches"):
        derive(setup(batch={"size": 9_000_000}), {})
    with pytest.raises(ConfigError, match=r"microbatches: 4 stages x 9,000,000 microbatches"):
        derive(setup(), {"microbatches": 9_000_000})


def test_a_gpu_without_room_for_its_context() -> None:
    """A budget of less than nothing is the fault of the GPU's memory."""
    with pytest.raises(ConfigError, match=r"hardware\.memory: must be more than the 0\.75 GB .*, not 0\.5"):
        derive(setup(memory=0.5), {})


def test_a_given_layout_is_kept() -> None:
    """A list of layers, or Megatron's text, holds for the stages of the setup, and no other number of them."""
    for layout in ((5, 4, 4, 3), "Et*5|t*4|t*4|t*3L"):
        given = setup(training={"layout": layout})
        found = estimate(given)
        assert [stage.count("layer") for stage in found.stages] == [5, 4, 4, 3]
        assert found.layout.startswith("Et*5|")
        with pytest.raises(NotApplicable, match=r"training\.layout"):
            pipesched.run(derive(given, {}), "zb-v")
    for wrong in ((5, 4, 4, 4), (8, 8), "Et*5|t*4|t*4|t*4L", "Et*16|L|L|L"):
        with pytest.raises(ConfigError, match=r"training\.layout"):
            derive(setup(training={"layout": wrong}), {})


def test_a_stage_without_items_lasts_nothing() -> None:
    """It costs nothing and holds nothing; what stands beside the layers stays where it was."""
    found = estimate(setup(training={"layout": "Et*8||t*8|L"}))
    assert found.layout == "Et*8||t*8|L"
    costs, memory = found.problem.costs, found.problem.memory
    assert [column[1] for column in (costs.forward, costs.backward_input, memory.activation, memory.static)] == [0] * 4
    assert 0 not in [costs.forward[stage] for stage in (0, 2, 3)]


def test_boundaries_inside_a_node_are_faster() -> None:
    """8 GPUs a node: with 2 ranks a device four devices share a node; with 4 ranks two."""
    given = setup(parallel={"gpus": 16, "pipeline": 8})
    assert [is_across(given, device, device + 1) for device in range(7)] == [False] * 3 + [True] + [False] * 3
    latency = estimate(given).problem.costs.p2p
    assert len({*latency}) == 2
    assert latency[3] == max(latency)


def test_every_operation_of_the_step_survives_a_pickle() -> None:
    """Problems with what they were derived from go to other processes."""
    import pickle

    problem = derive(setup(), {})
    again = pickle.loads(pickle.dumps(problem))
    assert isinstance(again.cutter, SetupCutter)
    assert pipesched.run(again, "zb-v").schedule.makespan == pipesched.run(problem, "zb-v").schedule.makespan


def test_messages_are_those_of_the_stages_that_run() -> None:
    """A family that cuts anew estimates the same whether the setup says its chunks or not."""
    one, two = (estimate(setup(parallel={"chunks": chunks}), "zb-v") for chunks in (1, 2))
    assert one.step == two.step
    assert one.setup.parallel.chunks == 2
    assert estimate(setup(parallel={"chunks": 2})).setup.parallel.chunks == 1


@pytest.mark.parametrize(("algorithm", "pipeline"), [("dualpipe", 1), ("chimera", 1), ("chimera", 3), ("dualpipe", 3)])
def test_an_algorithm_that_needs_even_devices_does_not_apply(algorithm: str, pipeline: int) -> None:
    """It says so; that the stages are cut for it before does not fail in another way."""
    odd = setup({"num_hidden_layers": 12}, parallel={"gpus": 2 * pipeline, "pipeline": pipeline})
    with pytest.raises(NotApplicable, match="needs an even number of devices"):
        pipesched.run(derive(odd, {}), algorithm)


@pytest.mark.parametrize(("dispatcher", "milliseconds"), [("deepep", 1.056), ("alltoall", 4.241), ("allgather", 1.988)])
def test_messages_of_experts_are_those_of_the_dispatcher(dispatcher: str, milliseconds: float) -> None:
    """Qwen3-235B on H100s, tensor 2, expert 16: once to each node, once for each of its 8 experts, or to all ranks."""
    sections: dict[str, Any] = {
        "hardware": "h100-sxm", "parallel": {"gpus": 256, "tensor": 2, "pipeline": 8, "expert": 16},
        "batch": {"sequence": 4096, "global": 1024}, "training": {"dispatcher": dispatcher, "layout": "equal"},
    }  # fmt: skip
    found = pipesched.estimate(None, "1f1b", model="qwen3-235b-a22b", **sections)
    terms = found.cutter.items.each[50].times.forward
    (messages,) = (term for term in terms if term.name == "dispatch and combine")
    assert float(messages.value) == pytest.approx(milliseconds, abs=1e-3)
    with pytest.raises(ConfigError, match="has no effect: llama-3-8b has no experts") as caught:
        pipesched.estimate(None, "1f1b", model="llama-3-8b", **{**sections, "parallel": {"gpus": 64, "pipeline": 4}})
    assert "training.dispatcher" in str(caught.value)


def test_a_text_as_an_override_cuts_a_model() -> None:
    """What `--layout` is given beside a model takes the place of `training.layout`."""
    text = (
        "model: llama-3-8b\nhardware: h100-sxm\nparallel: {gpus: 8, pipeline: 4}\nbatch: {sequence: 4096, global: 16}\n"
    )
    problem = pipesched.load(text, layout="Et*9|t*9||t*14L")
    assert pipesched.hand_over(pipesched.run(problem, "1f1b"), "megatron").split("'")[1] == "Et*9|t*9||t*14L"
