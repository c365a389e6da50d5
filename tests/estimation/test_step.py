"""What a step costs beside its passes where data-parallel ranks divide parameters: rings, optimizers, memory."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st
from rich.console import Console

import pipesched
from pipesched import ConfigError, Estimate, Problem
from pipesched.config.estimate import changes
from pipesched.documents.tuning import estimate_document
from pipesched.estimation.config_text import config_text
from pipesched.estimation.derived import derive
from pipesched.estimation.items import GB
from pipesched.estimation.memory import state_bytes
from pipesched.estimation.setup import Setup
from pipesched.estimation.setup_reader import setup_of
from pipesched.estimation.trace import trace
from pipesched.pipeline.layers.recut import recut
from pipesched.pipeline.plan.step import LEVELS, Shard
from pipesched.pipeline.problem.costs import STEP_TIMES
from pipesched.pipeline.problem.placement import named_placement
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.render.estimate import estimate_view
from tests.estimation.setups import LLAMA, setup
from tests.examples import at_night_but

HOPS = ("HOP_NVLINK", "HOP_PCIE", "HOP_NETWORK")
EXPERTS: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "head_dim": 128,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 1408,
}


def llama(shard: str | None, ranks: int | None = None) -> Setup:
    """Llama-3-8B on 64 H100: 16 data-parallel ranks on two nodes."""
    return setup_of(
        model="llama-3-8b",
        hardware="h100-sxm",
        parallel={"gpus": 64, "pipeline": 4, "shard_ranks": ranks},
        batch={"sequence": 8192, "micro": 1, "global": 128},
        training={"shard": shard, "efficiency": {"network": 0.8}, "layout": "Et*8|t*9|t*9|t*6L"},
    ).setup


def derived(given_setup: Setup) -> Problem:
    """The problem of a setup, a stage a device."""
    problem = derive(given_setup, {})
    return recut(problem, named_placement("loop", problem.devices, problem.stages))


def milliseconds(times: object) -> list[float]:
    """Times as a table has them."""
    assert isinstance(times, tuple)
    return [*map(float, times)]


@pytest.fixture
def without_hops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages take no time but that of their bytes."""
    for name in HOPS:
        monkeypatch.setattr(f"pipesched.estimation.terms.{name}", 0)


GATHERS = [13.302, 11.502, 11.502, 10.746]
REDUCTIONS = [26.604, 23.004, 23.004, 21.492]


@pytest.mark.usefixtures("without_hops")
@pytest.mark.parametrize(
    ("shard", "gather", "reduce", "stays"),
    [
        ("none", None, [53.209, 46.008, 46.008, 42.985], 40.864),
        ("optimizer", GATHERS, REDUCTIONS, 15.324),
        ("gradients", GATHERS, REDUCTIONS, 6.811),
        ("weights", GATHERS, REDUCTIONS, 2.554),
    ],
)
def test_levels_of_a_llama(shard: str, gather: list[float] | None, reduce: list[float], stays: float) -> None:
    """Gradients and weights go around 16 ranks at 8 cards a node; what stays is divided level by level."""
    problem = derived(llama(shard))
    costs = problem.costs
    assert (None if costs.gather is None else milliseconds(costs.gather)) == gather
    assert milliseconds(costs.reduce) == reduce
    assert problem.shard is not None
    assert (problem.shard.level, problem.shard.ranks, problem.shard.ahead, problem.shard.reduce) == (
        shard,
        16,
        3,
        "last",
    )
    assert float(Fraction(problem.grains.static[0], problem.grains.per_unit)) == pytest.approx(stays, abs=5e-4)
    assert to_fraction(problem.memory.static[0]) == 0


@pytest.mark.usefixtures("without_hops")
def test_groups_of_a_node_and_their_replicas() -> None:
    """Eight ranks gather over the links of a node; gradients also go around two replicas, a card each."""
    problem = derived(llama("weights", 8))
    assert milliseconds(problem.costs.gather)[0] == 11.036
    assert milliseconds(problem.costs.reduce)[0] == 50.45
    found = Estimate(pipesched.run(problem, "1f1b"))
    parts = [part.value for part in trace(found, "stage.0.reduce").parts]
    assert [round(part, 3) for part in (parts[0], parts[1] + parts[2])] == [22.072, 28.378]


def test_a_ring_pays_for_its_hops() -> None:
    """Of 15 hops around 16 ranks on two nodes 14 are inside a node and one is between them."""
    own = 1e-3 * (14 * 3.4 + 14)
    for shard, rounds in (("weights", 1), ("none", 2)):
        problem = derived(llama(shard))
        want = (26.604 if rounds == 1 else 53.209) + rounds * own
        assert milliseconds(problem.costs.reduce)[0] == pytest.approx(want, abs=1.1e-3)
    assert milliseconds(derived(llama("weights")).costs.gather)[0] == pytest.approx(13.302 + own, abs=1.1e-3)


def test_many_nodes_gather_slowly() -> None:
    """From 32 nodes on a gather reaches 0.6 of the rate of a reduction."""
    few, many = (setup(parallel={"gpus": 8 * ranks}, batch={"size": 16 * ranks}, training={"shard": "weights"})
                 for ranks in (124, 128))  # fmt: skip
    for one, share in ((few, 1.0), (many, 0.6)):
        problem = derived(one)
        late = 1e-3 * ((one.parallel.data - one.parallel.data // 4) * 3.4 + (one.parallel.data // 4 - 1) * 14)
        gather, reduce = (milliseconds(getattr(problem.costs, key))[0] - late for key in ("gather", "reduce"))
        assert gather == pytest.approx(reduce / 2 / share, rel=1e-4)


def test_tied_gradients_are_a_message() -> None:
    """Where the model ties its vocabulary and both ends have a copy; the same device needs no message."""
    tied, own = ({"tie_word_embeddings": ties} for ties in (True, False))
    training = {"shard": "optimizer"}
    one = setup(tied, training=training)
    problem = derived(one)
    sent = 4 * 4096 * 32000 / 2
    assert problem.costs.tied is not None
    assert float(problem.costs.tied) == pytest.approx(sent / (400 * 0.7) * 1e-6, abs=5e-4)
    assert derived(setup(own, training=training)).costs.tied is None
    assert derived(setup(tied, parallel={"pipeline": 1}, training=training)).costs.tied is None
    folded = setup(tied, parallel={"chunks": 2}, training=training)
    assert recut(derive(folded, {}), named_placement("v", 4, 8)).costs.tied is None


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    """Dense models and experts whose states are divided by any level, among some ranks or all."""
    keys = ("gpus", "tensor", "pipeline", "context", "shard_ranks")
    rows = [(32, 2, 4), (32, 4, 2, None, 2), (32, 1, 2, 2, 4), (24, 1, 4, None, 3), (8, 2, 4)]
    sizes = {key: size for key, size in zip(keys, draw(st.sampled_from(rows)), strict=False) if size}
    experts = draw(st.sampled_from([None, (2, 1), (4, 1), (2, 2)]))
    precision = draw(st.sampled_from([{}, {"gradients": "bf16"}, {"precision": "fp16"}, {"precision": "fp32"}]))
    parallel = {**sizes, **dict(zip(("expert", "expert_tensor"), experts or (1, 1), strict=True))}
    training = {"shard": draw(st.sampled_from(LEVELS)), **precision}
    try:
        return setup(EXPERTS if experts else None, parallel=parallel, batch={"size": 96}, training=training)
    except ConfigError:
        assume(False)
        raise


@given(setups())
def test_what_stays_is_what_a_rank_has(one: Setup) -> None:
    """The problem keeps weights, gradients and states as the table of bytes says, experts by their own ranks."""
    shard = str(one.training.shard)
    problem = derived(one)
    bytes_of = state_bytes(one.training)
    own = one.parallel.data * one.parallel.context
    ranks = own if one.parallel.shard_ranks is None else one.parallel.shard_ranks
    level = LEVELS.index(shard)
    stages = problem.cutter.stages  # type: ignore[union-attr]
    for number, stage in enumerate(stages):
        total = Fraction(0)
        for count, among in (
            (stage.size("parameters") - stage.size("experts"), ranks),
            (stage.size("experts"), min(ranks, one.parallel.expert_data)),
        ):
            for place, each in ((3, bytes_of.weight), (2, bytes_of.gradient), (1, bytes_of.optimizer)):
                total += count * each / (among if level >= place else 1)
        static = Fraction(problem.grains.static[number], problem.grains.per_unit)
        assert static == (total + stage.size("logits")) / GB
        assert stage.states == total
        assert to_fraction(problem.memory.weights[number]) == stage.size("parameters") * bytes_of.weight / GB
        assert to_fraction(problem.memory.static[number]) >= stage.size("logits") / GB


@given(setups())
def test_times_follow_from_bytes_and_rings(one: Setup) -> None:
    """Each time is that of its bytes over the links of its ring, and of its hops, dense and expert parts added up."""
    shard = str(one.training.shard)
    problem, bytes_of = derived(one), state_bytes(one.training)
    parallel = one.parallel
    own = parallel.data * parallel.context
    ranks = own if parallel.shard_ranks is None or shard == "none" else parallel.shard_ranks
    for number, stage in enumerate(problem.cutter.stages):  # type: ignore[union-attr]
        gather = reduce = 0.0
        for count, alike, apart in (
            (stage.size("parameters") - stage.size("experts"), own, parallel.tensor),
            (stage.size("experts"), parallel.expert_data, parallel.expert * parallel.expert_tensor),
        ):
            among = alike if shard == "none" else min(ranks, alike)
            if count:
                gather += ring(bytes_of.weight * float(count), among, apart)
                reduce += ring(bytes_of.gradient * float(count), among, apart) * (1 + (shard == "none"))
                reduce += 2 * ring(bytes_of.gradient * float(count) / among, alike // among, apart * among)
        if problem.costs.gather is not None:
            assert float(problem.costs.gather[number]) == pytest.approx(gather, abs=6e-4)
        assert problem.costs.reduce is not None
        assert float(problem.costs.reduce[number]) == pytest.approx(reduce, abs=6e-4)
        assert (problem.costs.gather is None) == (shard == "none")


def ring(size: float, ranks: int, apart: int) -> float:
    """The milliseconds of a part of `size` bytes around ranks of the GPU of these tests, at 0.7 of its links."""
    inside = max(1, 8 // apart)
    rate = 400.0 if ranks * apart <= 8 else min(400.0, 50.0 * inside)
    nodes = -(-ranks // inside)
    return size * (ranks - 1) / ranks / (rate * 0.7) * 1e-6 + ((ranks - nodes) * 3.4 + (nodes - 1) * 14) * 1e-3


@pytest.mark.parametrize("shard", LEVELS)
def test_a_trace_of_the_network_adds_up(shard: str) -> None:
    """Its parts are the number, and that is the cost; without a level there is none; activations are of passes."""
    found, plain = (Estimate(pipesched.run(derived(llama(level)), "1f1b")) for level in (shard, None))
    for what in ("gather", "reduce"):
        traced = trace(found, f"stage.1.{what}")
        assert sum(part.value for part in traced.parts) == pytest.approx(traced.value)
        costs = getattr(found.problem.costs, what)
        assert traced.value == pytest.approx(0 if costs is None else float(costs[1]), abs=5e-4)
        assert all("GB/s" in part.formula for part in traced.parts)
        with pytest.raises(ConfigError, match="unknown number of a stage"):
            trace(plain, f"stage.1.{what}")
    assert trace(found, "device.0.activations").parts == trace(plain, "device.0.activations").parts


def test_both_words_may_agree() -> None:
    """`distributed_optimizer` may stand beside the level that it means."""
    for level, switch in (("none", False), ("optimizer", True)):
        for training in ({"shard": level}, {"shard": level, "distributed_optimizer": switch}):
            read = setup_of(
                model="llama-3-8b",
                hardware="h100-sxm",
                parallel={"gpus": 64, "pipeline": 4},
                batch={"sequence": 8192, "global": 128},
                training=training,
            ).setup.training
            assert (read.shard, read.distributed_optimizer) == (level, switch)


def test_experts_need_ranks_that_divide_theirs() -> None:
    """The ranks with the same experts are others: six cannot be groups of four."""
    sizes = {"gpus": 12, "tensor": 3, "pipeline": 1, "expert": 2}
    model = {**EXPERTS, "num_attention_heads": 12, "num_key_value_heads": 3, "moe_intermediate_size": 1536,
             "intermediate_size": 1536, "hidden_size": 1536}  # fmt: skip
    plain = setup(model, parallel={**sizes, "sequence": False}, batch={"size": 16})
    assert plain.parallel.expert_data == 6
    with pytest.raises(ConfigError, match="4 do not divide the 6 ranks with the same experts: for instance 3 or 6"):
        replace(plain, training=replace(plain.training, shard="weights"))


@pytest.mark.parametrize("algorithm", at_night_but(["interleaved"], ["1f1b", "interleaved", "zb-h1"]))
@pytest.mark.parametrize("shard", LEVELS)
def test_the_step_is_the_makespan(algorithm: str, shard: str) -> None:
    """Its parts add up to it; the pipeline is what it would be alone, the optimizer what the network leaves of it."""
    rule = {"layout": "balanced"}  # the best cut would be one for the whole step
    given_setup = setup(
        parallel={"gpus": 32, "chunks": 2}, batch={"size": 64}, training={"shard": shard, **rule}, nic=5
    )
    found = Estimate(pipesched.run(derive(given_setup, {}), algorithm))
    step, schedule = found.step, found.outcome.schedule
    times = schedule.step
    assert times is not None
    assert step.time == schedule.makespan
    assert step.time == pytest.approx(step.pipeline + step.communication + step.optimizer)
    assert (step.pipeline, step.communication) == (times.pipeline, times.network)
    without = setup(parallel={"gpus": 32, "chunks": 2}, batch={"size": 64}, training=rule, nic=5)
    alone = Estimate(pipesched.run(derive(without, {}), algorithm))
    assert step.pipeline == pytest.approx(alone.step.pipeline)
    assert step.communication > 0
    assert step.optimizer > 0


@pytest.mark.parametrize("shard", at_night_but(["weights"], LEVELS))
def test_devices_hold_what_stays_and_what_is_whole_for_a_while(shard: str) -> None:
    """The sum is what the schedule holds at most, and what is fixed; traces add up."""
    given_setup = setup(parallel={"gpus": 32, "chunks": 2}, batch={"size": 64}, training={"shard": shard})
    found = Estimate(pipesched.run(derive(given_setup, {}), "interleaved"))
    schedule = found.outcome.schedule
    for number, device in enumerate(found.devices):
        stays = device.weights + device.gradients + device.optimizer + device.logits
        assert float(stays + device.activations + device.unsharded) == pytest.approx(schedule.memory[number] * 1e9)
        assert float(device.activations) == pytest.approx(schedule.peak_of("activations")[number] * 1e9)
        assert (device.unsharded > 0) == (shard in ("gradients", "weights"))
        assert device.total == stays + device.activations + device.unsharded + device.fixed
        for what in ("unsharded", "total", "communication", "optimizer_step"):
            traced = trace(found, f"device.{number}.{what}")
            assert sum(part.value for part in traced.parts) == pytest.approx(traced.value)
    row = estimate_document(found)["devices"][0]
    assert [*row][3:6] == ["optimizer", "activations", "unsharded"]
    plain = estimate_document(Estimate(pipesched.run(derive(setup(), {}), "1f1b")))
    assert "unsharded" not in plain["devices"][0]
    assert "exposed" not in plain["step"]
    with pytest.raises(ConfigError, match="unknown number of a device"):
        trace(Estimate(pipesched.run(derive(setup(), {}), "1f1b")), "device.0.unsharded")


SIDE = {"name": "vision", "forward": 2, "backward": 4, "static": 3, "activation": 0.5, "output": 0.1}


@pytest.mark.parametrize("more", at_night_but([{"shard": "weights"}], [{}, {"shard": "weights"}]))
def test_side_work_counts_in_memory_and_time(more: dict[str, str]) -> None:
    """Its static memory on its devices, what it adds to the peak, and its time: as the schedule has them."""
    given_setup = setup(parallel={"gpus": 32}, batch={"size": 32}, training=more)
    without = Estimate(pipesched.run(derive(given_setup, {}), "1f1b"))
    for devices in ("all", [3]):
        found = Estimate(pipesched.run(derive(given_setup, {"side": [{**SIDE, "devices": devices}]}), "1f1b"))
        schedule = found.outcome.schedule
        assert found.step.pipeline > without.step.pipeline
        for number, device in enumerate(found.devices):
            has_item = devices == "all" or number in devices
            assert (device.side >= 3 * 10**9) == has_item
            stays = device.weights + device.gradients + device.optimizer + device.logits
            held = stays + device.activations + device.unsharded + device.side
            assert float(held) == pytest.approx(schedule.memory[number] * 1e9)
            assert device.total == held + device.fixed
            traced = trace(found, f"device.{number}.side")
            assert sum(part.value for part in traced.parts) == pytest.approx(traced.value)
        row = estimate_document(found)["devices"][0]
        assert [*row][4:-4] == ["activations", *["unsharded"] * bool(more), "side", "logits"]
        assert found.devices[0].side > 0  # the output stays there until stage 0 needs it


@pytest.mark.nightly
def test_side_work_that_is_too_much_is_over_on_every_device() -> None:
    """80 GB of an encoder on each device: none fits, and no change of layout is tried."""
    item = {**SIDE, "static": 80}
    sections: dict[str, Any] = {"parallel": {"gpus": 8, "tensor": 2, "pipeline": 4}, "side": [item]}
    batch = {"sequence": 8192, "global": 8}
    found = pipesched.estimate(None, "1f1b", model="llama-3-8b", hardware="h100-sxm", batch=batch, **sections)
    assert not any(device.fits for device in found.devices)
    assert changes(found) == []


def test_the_report_names_what_nothing_hides() -> None:
    """The document has the whole of `metrics.step`, the table the operations of the network without slack."""
    found = Estimate(pipesched.run(derived(llama("weights")), "1f1b"))
    content = estimate_document(found)["step"]
    assert list(content["exposed"]) == ["pipeline", "network", "gather", "reduce", "tied", "optimizer", "exposed"]
    assert content["exposed"]["exposed"] == ["0UNSHARD0", "0REDUCE_GRAD"]
    assert content["exposed"]["gather"]["time"] == milliseconds(found.problem.costs.gather)
    with (console := Console(width=120, color_system=None)).capture() as capture:
        console.print(estimate_view(found))
    text = capture.get()
    assert "what nothing hides: 0UNSHARD0, 0REDUCE_GRAD" in text
    assert "unsharded" in text


def test_times_of_a_step_have_formulas() -> None:
    """They speak of the schedule, whose operations these are."""
    found = Estimate(pipesched.run(derived(llama("optimizer")), "1f1b"))
    for what in ("communication", "optimizer", "time", "pipeline"):
        assert "makespan" in trace(found, f"step.{what}").parts[0].formula


@pytest.mark.parametrize(
    ("given_values", "column", "value"),
    [
        ({"gather": 4}, "gather", 4),
        ({"reduce": [1, 2, 3, 4]}, "reduce", 1),
        ({"optimizer": 7}, "optimizer", 7),
        ({"weights": 3}, "weights", 3),
        ({"states": 0}, "states", 0),
    ],
)
def test_keys_beside_the_model_count_instead(given_values: dict[str, Any], column: str, value: int) -> None:
    """Each replaces its own numbers; all others stay derived."""
    plain, changed = (derive(llama("weights"), values) for values in ({}, given_values))
    for key in ("gather", "reduce", "optimizer", "weights", "gradients", "states"):
        columns = [getattr(one.costs if key in STEP_TIMES else one.memory, key) for one in (plain, changed)]
        assert columns[1][0] == (value if key == column else columns[0][0])


def test_keys_of_shard_beside_the_model_count_instead() -> None:
    """A word is the level; a mapping leaves the level and the ranks of the setup as they are."""
    assert derive(llama("weights"), {"shard": {"ahead": 2}}).shard == Shard("weights", 16, 2)
    assert derive(llama("weights"), {"shard": "gradients"}).shard == Shard("gradients", 16)
    assert derive(llama(None), {"shard": {"level": "weights", "ranks": 4}}).shard == Shard("weights", 4)


def test_forward_passes_alone_gather_only() -> None:
    """There are no gradients to reduce, and nothing is updated."""
    problem = derive(llama("weights"), {"mode": "forward"})
    assert milliseconds(problem.costs.gather)[0] > 13
    assert (problem.costs.reduce, problem.costs.optimizer, problem.costs.tied) == (None, None, None)
    assert not any(problem.memory.gradients + problem.memory.states)


@pytest.mark.parametrize("shard", at_night_but(["weights"], LEVELS))
def test_the_written_config_has_the_step(shard: str) -> None:
    """It is read back as a problem of the same schedule and memory."""
    found = Estimate(pipesched.run(derive(setup(training={"shard": shard}, parallel={"gpus": 16}), {}), "1f1b"))
    again = pipesched.run(pipesched.load(config_text(found)), "1f1b").schedule
    assert again.makespan == pytest.approx(found.step.time, rel=1e-6)
    assert again.memory == pytest.approx(found.outcome.schedule.memory, rel=1e-6)


def test_what_does_not_fit_may_be_divided_further() -> None:
    """The next levels are among the changes that fit, where a level is asked for."""
    config: dict[str, Any] = {
        "model": LLAMA,
        "hardware": {"preset": "h100-sxm", "memory": 9},
        "parallel": {"gpus": 64, "tensor": 2, "pipeline": 4},
        "batch": {"sequence": 4096, "global": 128},
        "training": {"shard": "none"},
    }
    found = pipesched.estimate(None, **config)
    assert not found.fits
    keys = {key for change in changes(found) for key in change.values}
    assert "training.shard" in keys
    assert "training.distributed_optimizer" not in keys
