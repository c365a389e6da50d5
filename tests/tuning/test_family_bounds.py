"""What is known of a point before it is simulated: no schedule is shorter or holds less than its bounds say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from math import inf
from random import Random
from typing import Any

import pytest

from pipesched import (
    ConfigError,
    Estimate,
    NoSchedule,
    NotApplicable,
    Pair,
    PipeschedError,
    Schedule,
    algorithms,
    make_problem,
    run,
)
from pipesched.estimation.derived import outline
from pipesched.estimation.huggingface import read_model
from pipesched.estimation.setup import Parallel, Setup, TokenBatch, TrainingSetup
from pipesched.tuning.setup_bounds import FamilyBounds, misses, setup_bounds
from tests.estimation.setups import GPU
from tests.examples import at_night_but
from tests.tuning.spaces import DENSE_FIRST, EXPERTS, LLAMA

FAMILIES = {one.name: one for one in algorithms()}
NAMES = tuple(name for name in FAMILIES if not FAMILIES[name].required)
SOME = ("1f1b", "zb-h1", "dualpipe-v", "interleaved")
SEEDS = [(0, SOME), *(pytest.param(first, NAMES, marks=pytest.mark.nightly) for first in range(0, 40, 5))]
ROUNDING = 1e-9
LEVELS = ("none", "optimizer", "gradients", "weights")
SHAPES = ((2, 1, 4), (3, 1, 6), (2, 2, 5), (3, 2, 6), (4, 2, 8), (2, 4, 8))  # devices, stages of each, microbatches


def random_setup(seed: int) -> Setup:
    """A small model on a few GPUs, often with hardly enough memory."""
    draw = Random(seed)
    model = {**draw.choice((LLAMA, EXPERTS, DENSE_FIRST)), "num_hidden_layers": draw.randint(3, 11),
             "vocab_size": draw.choice((1000, 32000, 256000))}  # fmt: skip
    hardware = replace(GPU, memory=draw.choice((80, *(draw.uniform(2, 14) for _ in range(3)))))
    pipeline, tensor, data = draw.choice((1, 2, 2, 3, 4, 4, 5)), draw.choice((1, 2)), draw.choice((1, 1, 2))
    training = draw.choice(({}, {}, {"recompute": "full"}, {"recompute": "full", "full_layers": draw.randint(1, 3)},
                            {"recompute": "selective", "flash_attention": False}))  # fmt: skip
    micro, count = draw.choice((1, 1, 2)), draw.choice((2, 3, 4, 6, 8, 12))
    try:
        return Setup(
            read_model(model, "small"),
            hardware,
            Parallel(pipeline * tensor * data, tensor, pipeline, draw.choice((1, 1, 2, 3)), sequence=tensor > 1),
            TokenBatch(draw.choice((512, 4096)), micro, micro * data * count),
            TrainingSetup(**training),
        )
    except ConfigError:  # more stages than the model has items
        return random_setup(seed + 1000)


def with_one_stage(setup: Setup) -> Setup:
    """The setup for which bounds hold: more stages a device only add messages."""
    return replace(setup, parallel=replace(setup.parallel, chunks=1))


def simulated(setup: Setup, name: str) -> Estimate | None:
    """What `estimate` says of a setup under an algorithm; None where there is none."""
    try:
        return Estimate(run(outline(setup, {}), name))
    except (NotApplicable, NoSchedule):
        return None


def sharded_setup(seed: int) -> Setup:
    """The same on more ranks, which divide something of what a rank has, often over a slow network."""
    draw, setup = Random(seed), random_setup(seed)
    data = draw.choice((2, 4, 8))
    ranks = draw.choice((None, *(size for size in (1, 2, 4) if size <= data)))
    parallel, batch = setup.parallel, setup.batch
    try:
        return replace(
            setup,
            hardware=replace(setup.hardware, nic=draw.choice((2, 20, 50)), gpus_per_node=draw.choice((2, 4, 8))),
            parallel=replace(parallel, gpus=parallel.gpus // parallel.data * data, shard_ranks=ranks),
            batch=replace(batch, size=batch.size // parallel.data * data),
            training=replace(setup.training, shard=draw.choice(LEVELS)),
        )
    except ConfigError:
        return sharded_setup(seed + 1000)


@pytest.mark.slow
@pytest.mark.parametrize("drawn", [random_setup, sharded_setup])
@pytest.mark.parametrize(("first", "names"), SEEDS)
def test_no_schedule_beats_its_bounds(drawn: Callable[[int], Setup], first: int, names: tuple[str, ...]) -> None:
    """Random setups under every algorithm: neither the time of what fits, nor the memory, nor what a step adds.

    Also where gathers, reductions and optimizers are operations of the schedule.
    """
    known_to_fit = impossible = 0
    for seed, name in product(range(first, first + 5), names):
        setup = drawn(seed)
        found = simulated(setup, name)
        if found is None:
            continue
        chosen, said = FAMILIES[name], (seed, name)
        known = setup_bounds(with_one_stage(setup), has_pairs=chosen.has_pairs)
        stages = found.problem.stages
        assert setup.training.shard or stages == chosen.chunks_run(setup.parallel.chunks) * setup.parallel.pipeline, (
            said
        )
        bounds = FamilyBounds(known, chosen, stages)
        spare = min(float(device.budget - device.total) / 1e9 for device in found.devices)
        assert misses(setup, known.floor) <= -spare + ROUNDING, said
        step = found.step
        once, pipeline, time = (
            one * 1000 * (1 + ROUNDING) for one in (step.communication + step.optimizer, step.pipeline, step.time)
        )
        least, ideal = known.least(whole=chosen.splits_backward is False, copies=chosen.copies), known.ideal
        assert ideal[chosen.copies - 1] + known.once <= time, said
        if not setup.training.shard:
            assert known.once <= once, said
            assert ideal[chosen.copies - 1] <= pipeline, said
        if found.fits:
            known_to_fit += 1
            assert least + known.once <= time, said
            assert bounds.time <= time, said
            assert setup.training.shard or max(bounds.least, least) <= pipeline, said
        else:
            impossible += bounds.time == inf
    assert known_to_fit > len(names)
    assert impossible > len(names) / 5


@pytest.mark.parametrize("shard", LEVELS)
def test_bounds_of_steps_are_close(shard: str) -> None:
    """Also where messages, gathers and reductions over a slow network take about as long as the passes."""
    setup = random_setup(2)
    setup = replace(
        setup,
        hardware=replace(setup.hardware, memory=80, nic=1.5, gpus_per_node=2),
        parallel=replace(setup.parallel, gpus=8 * setup.parallel.gpus // setup.parallel.data),
        batch=replace(setup.batch, size=12 * 8 * setup.batch.micro),
        training=replace(setup.training, shard=shard),
    )
    found = simulated(setup, "1f1b")
    assert found is not None
    assert found.step.communication > 0.3 * found.step.pipeline
    bounds = FamilyBounds(setup_bounds(with_one_stage(setup)), FAMILIES["1f1b"], setup.parallel.pipeline)
    assert bounds.time > 0.8 * found.step.time * 1000


def test_bounds_are_close() -> None:
    """A bound that says little would be sound too: for one stage a device, and memory enough, they are within 12 %."""
    setup = random_setup(2)
    setup = replace(setup, hardware=replace(setup.hardware, memory=80), batch=replace(setup.batch, size=48))
    found = simulated(setup, "1f1b")
    assert found is not None
    least = FamilyBounds(setup_bounds(with_one_stage(setup)), FAMILIES["1f1b"], setup.parallel.pipeline).least
    assert least > 0.88 * found.step.pipeline * 1000


def layouts_of_one_space() -> Iterator[Setup]:
    """Layouts of a model with experts and of one without, and of networks that differ: some are alike."""
    sizes = product((1, 2), (1, 2), (1, 2), (1, 2, 4), (1, 2), ("none", "full"), (25, 50))
    for content in (EXPERTS, LLAMA):
        for tensor, pipeline, context, expert, expert_tensor, recompute, nic in sizes:
            try:
                yield Setup(
                    read_model({**content, "num_hidden_layers": 4}, "small"),
                    replace(GPU, nic=nic, gpus_per_node=2),
                    Parallel(8, tensor, pipeline, 1, context, expert, expert_tensor, sequence=tensor > 1),
                    TokenBatch(1024, 1, 16),
                    TrainingSetup(recompute=recompute),
                )
            except ConfigError:
                continue


@pytest.mark.slow
@pytest.mark.nightly
def test_setups_of_the_same_signature_have_the_same_steps_and_memory() -> None:
    """Layouts that the search takes for one another are one another's twins; there are some."""
    groups: dict[object, list[Setup]] = {}
    for setup in layouts_of_one_space():
        groups.setdefault(setup_bounds(setup).signature, []).append(setup)
    alike = [group for group in groups.values() if len(group) > 1]
    assert len(alike) >= 2
    for group in alike:
        for name in ("1f1b", "zb-h1"):
            first, *others = (simulated(setup, name) for setup in group)
            assert first is not None
            for other in others:
                assert other is not None
                assert (other.step, other.layout) == (first.step, first.layout)
                assert [device.total for device in other.devices] == [device.total for device in first.devices]


def scheduled(name: str, devices: int, each: int, count: int, seed: int | None = None) -> Schedule | None:
    """The schedule of an algorithm for so many stages a device, with random costs where there is a seed."""
    draw, stages = Random(seed), devices * each

    def drawn() -> list[int]:
        return [1 if seed is None else draw.randint(1, 9) for _ in range(stages)]

    costs: dict[str, Any] = {key: drawn() for key in ("forward", "backward_input", "backward_weight", "activation")}
    p2p = 0 if seed is None else draw.randint(0, 3)
    problem = make_problem(devices=devices, stages=stages, microbatches=count, p2p=p2p, **costs)
    try:
        return run(problem, name).schedule
    except PipeschedError:
        return None


@cache
def examples(name: str) -> tuple[tuple[Schedule, ...], ...]:
    """Schedules of an algorithm, for each shape that suits it with several costs."""
    shapes = [[scheduled(name, *shape, seed) for seed in (None, 0, 1)] for shape in SHAPES]
    return tuple(tuple(one for one in shape if one is not None) for shape in shapes if any(shape))


def numbers_of(schedule: Schedule) -> tuple[int, int, int]:
    """The numbers of devices, stages and microbatches."""
    problem = schedule.problem
    return problem.devices, problem.stages, problem.microbatches


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.nightly
def test_what_families_say_of_their_orders_is_what_they_do(name: str) -> None:
    """A settled order is the same whatever the costs; who never splits a backward does not where costs do."""
    assert examples(name)
    settled = [shape for shape in examples(name) if FAMILIES[name].settles(*numbers_of(shape[0]))]
    assert bool(settled) == FAMILIES[name].settled_order
    assert all(one.plan.orders == shape[0].plan.orders for shape in settled for one in shape)
    if not settled:
        assert any(one.plan.orders != shape[0].plan.orders for shape in examples(name) for one in shape)
    assert FAMILIES[name].has_pairs == any(one.plan.pairs for shape in examples(name) for one in shape)
    split = any(op.kind in "IW" for shape in examples(name) for one in shape for op in operations(one))
    assert (FAMILIES[name].splits_backward is False) == (not split)


def operations(schedule: Schedule) -> Iterator[Any]:
    """All operations of a schedule."""
    for device in range(schedule.problem.devices):
        for slot in schedule.plan.slots(device):
            yield from slot if isinstance(slot, Pair) else (slot,)


def timeline(schedule: Schedule) -> list[list[tuple[Any, ...]]]:
    """When each device does what, of whichever microbatch."""
    found = []
    for device in range(schedule.problem.devices):
        slots = schedule.plan.slots(device)
        kinds = [[(op.stage, op.kind) for op in (slot if isinstance(slot, Pair) else (slot,))] for slot in slots]
        ends = zip(kinds, schedule.slot_start_ticks[device], schedule.slot_end_ticks[device], strict=True)
        found.append([tuple(one) for one in ends])
    return found


def same_with_one_stage(name: str, other: str) -> bool:
    """Whether two algorithms make the same schedules with one stage a device, but for which microbatch is which."""
    for devices, count, seed in ((2, 4, 0), (3, 6, 1), (4, 8, 2), (4, 5, 3)):
        both = [scheduled(one, devices, 1, count, seed) for one in (name, other)]
        if both[0] is None or both[1] is None:
            if both[0] is not both[1]:
                return False
        elif timeline(both[0]) != timeline(both[1]):
            return False
    return True


def test_which_algorithms_are_the_same_with_one_stage_a_device() -> None:
    """Those that run several stages, each with the first algorithm of one stage that it is the same as; no others."""
    settled = [FAMILIES[name] for name in NAMES if FAMILIES[name].settled_order]
    one_stage = [one.name for one in settled if one.stages == "P" and one.copies == 1]
    for several in settled:
        same = [name for name in one_stage if several.stages == "kP" and same_with_one_stage(several.name, name)]
        assert several.same_with_one_stage == next(iter(same), "")


def test_signatures_tell_messages_and_what_a_step_adds() -> None:
    """Another network alone, and other data-parallel ranks alone, make another signature."""
    one = replace(random_setup(2), parallel=Parallel(4, 1, 4), batch=TokenBatch(1024, 1, 8))
    slower = replace(one, hardware=replace(one.hardware, nic=20, nvlink=30))
    plain = replace(one, training=TrainingSetup(distributed_optimizer=False))
    wider = replace(plain, parallel=Parallel(8, 1, 4), batch=TokenBatch(1024, 1, 16))
    assert setup_bounds(one).signature == setup_bounds(replace(one, name="mine")).signature
    assert setup_bounds(one).signature != setup_bounds(slower).signature
    assert setup_bounds(plain).signature != setup_bounds(wider).signature


@pytest.mark.parametrize("name", ["dualpipe", "chimera", "bitpipe"])
def test_two_copies_share_an_item_that_is_most_of_the_work(name: str) -> None:
    """A head that takes longer than all layers: each of its two devices has it for half of the microbatches."""
    stages = 4 * FAMILIES[name].chunks
    content = {**LLAMA, "num_hidden_layers": stages - 1, "vocab_size": 512000}
    setup = Setup(read_model(content, "x"), GPU, Parallel(4, 1, 4), TokenBatch(1024, 1, 16), TrainingSetup())
    known, found = setup_bounds(setup), simulated(setup, name)
    assert found is not None
    assert found.fits
    assert FamilyBounds(known, FAMILIES[name], stages).least <= found.step.pipeline * 1000 * (1 + ROUNDING)
    assert found.step.pipeline * 1000 < known.ideal[0]


PAIRED = tuple(name for name in NAMES if FAMILIES[name].has_pairs)


@pytest.mark.parametrize("layers", at_night_but((5,), (5, 9)))
@pytest.mark.parametrize("nic", [50, 2])
def test_no_pair_of_experts_beats_its_bounds(layers: int, nic: int) -> None:
    """Dispatch and combine that pairs hide, on fast networks and on slow ones, where bounds without pairs are wrong."""
    wrong = 0
    for content in (EXPERTS, DENSE_FIRST):
        model = read_model({**content, "num_hidden_layers": layers}, "small")
        parallel, batch = Parallel(8, 1, 2, 1, expert=4), TokenBatch(4096, 1, 64)
        setup = Setup(model, replace(GPU, nic=nic, gpus_per_node=1), parallel, batch, TrainingSetup())
        for name in PAIRED:
            found, chosen = simulated(setup, name), FAMILIES[name]
            assert found is not None
            stages = chosen.chunks_run(1) * 2
            known, plain = (setup_bounds(setup, has_pairs=has_pairs) for has_pairs in (True, False))
            pipeline = found.step.pipeline * 1000 * (1 + ROUNDING)
            assert FamilyBounds(known, chosen, stages).least <= pipeline, name
            assert known.ideal[chosen.copies - 1] <= pipeline, name
            wrong += FamilyBounds(plain, chosen, stages).least > pipeline
    assert wrong or nic == 50


@pytest.mark.nightly
@pytest.mark.parametrize("nic", [50, 2])
def test_no_step_with_pairs_of_experts_beats_its_bounds(nic: int) -> None:
    """With gathers, reductions and optimizers too, which follow messages that hold microbatches up."""
    hardware, parallel = replace(GPU, nic=nic, gpus_per_node=1), Parallel(8, 1, 2, 1, expert=4)
    for content, shard, name in product((EXPERTS, DENSE_FIRST), ("none", "weights"), PAIRED):
        model = read_model({**content, "num_hidden_layers": 5}, "small")
        setup = Setup(model, hardware, parallel, TokenBatch(4096, 1, 64), TrainingSetup(shard=shard))
        found, known = simulated(setup, name), setup_bounds(setup, has_pairs=True)
        if found is not None:
            bounds = FamilyBounds(known, FAMILIES[name], found.problem.stages)
            assert known.paired
            assert 0 < bounds.time <= found.step.time * 1000 * (1 + ROUNDING), name


def test_what_is_the_same_without_pairs_may_differ_with_them() -> None:
    """Experts on two ranks, or cut in two: as long for others, but only dispatch and combine are hidden by pairs."""
    ways = (Parallel(8, 1, 2, expert=2), Parallel(8, 1, 2, expert_tensor=2))
    model, batch = read_model({**EXPERTS, "num_hidden_layers": 4}, "small"), TokenBatch(1024, 1, 16)
    hardware = replace(GPU, nic=25, gpus_per_node=2)
    both = [Setup(model, hardware, way, batch, TrainingSetup()) for way in ways]
    plain, paired = ([setup_bounds(one, has_pairs=has).signature for one in both] for has in (False, True))
    assert plain[0] == plain[1]
    assert paired[0] != paired[1]
    steps = [
        [found.step.pipeline for one in both if (found := simulated(one, name))] for name in ("1f1b", "dualpipe-v")
    ]
    assert steps[0][0] == steps[0][1]
    assert steps[1][0] != steps[1][1]
