"""`profile` measures the stages of a model by the operations that the runtime runs; `config_text` is their config.

Each stage runs on one device (`_measured`): forward (F), backward (B), and its halves, the gradients of the input (I)
and of the weights (W); recompute and offload too. Two processes then send each boundary's tensors to and fro (`_play`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import quantiles
from typing import Any

import torch

from pipesched.checks import require_whole
from pipesched.errors import PipeschedError
from pipesched.pipeline.problem.kinds import KINDS
from pipesched.results.outcome import Quartiles
from pipesched.runtime.channels import Shape, shapes_of
from pipesched.runtime.devices import CPU, CUDA, kind_of_device, take_device, transfers_for
from pipesched.runtime.model_source import add_place, failure_of
from pipesched.runtime.rank_processes import rank_processes
from pipesched.runtime.stage import StageRunner
from pipesched.runtime.training_data import Named, data_source, hint_for, moved
from pipesched.text.writer import ConfigText, ConfigWriter

WARM_UP = 2  # rounds that do not count
TIMES = ("forward", "backward", "backward_input", "backward_weight", "recompute", "offload", "reload")
MEGABYTE = 10**6
PLACES = 6  # of times: a nanosecond
RETAINED = "of an activation, what stays from the end of I to the end of W, gradients caught at the weights included:"
BACKWARD = "the halves of the backward, for schedules that split it, and the whole; I and W take longer than B:"


@dataclass
class StageProfile:
    """A stage: times in ms by the keys of `costs`, bytes, and the parts of an activation.

    `retain` is what I leaves for W as a part of `activation`, gradients that it caught at the weights included;
    `checkpoint` what a microbatch that is recomputed keeps. `static` is the weights and their gradients.
    """

    times: dict[str, Quartiles] = field(default_factory=dict)
    activation: int = 0
    retain: float = 1.0
    checkpoint: float = 0.0
    static: int = 0
    sends: list[Shape] = field(default_factory=list)


@dataclass
class Profile:
    """The stages of a model, and the times in ms to send each boundary's tensors from one process to another."""

    title: str
    devices: int
    microbatches: int
    repeats: int
    stages: list[StageProfile]
    p2p: list[Quartiles]


def profile(
    stages: Sequence[Any],
    shape: Sequence[int] | None = None,
    *,
    data: Named | None = None,
    loss: Named | None = None,
    dtype: str | None = None,
    vocab: int | None = None,
    devices: int | None = None,
    microbatches: int | None = None,
    repeats: int = 20,
    name: str = "the model",
) -> Profile:
    """Return what the stages of a model take, on the GPU if there is one.

    Args:
        stages: The modules of the stages, in forward order.
        shape: The sizes of a microbatch of random numbers, the input; a target of floats has them too.
        data: Instead: a function, or `package.module:function`, of a step and a number of microbatches, which returns
            inputs and targets, each a sequence of that many. It is called for step 0 and one microbatch.
        loss: `mse`, `cross-entropy`, a function of the output of the last stage and a target, or
            `package.module:function`. Default: mse; for inputs of integers cross-entropy.
        dtype: The type of random inputs, by its name; default: float32.
        vocab: Random integers, of targets too, are less than this; default: 2.
        devices: How many devices the config is for; default: one for each stage.
        microbatches: Of a step; default: twice the devices.
        repeats: How often each operation is measured.
        name: For the title of the config.

    Raises:
        ConfigError: For sizes that are none.
        ModelFailed: For what the model, the data or the loss raises.
    """
    source = data_source(data, loss, shape, dtype, vocab)
    require_whole(repeats, "repeats", least=2)
    count = require_whole(len(stages) if devices is None else devices, "devices", least=1, most=len(stages))
    device = take_device(0, kind_of_device())
    try:
        batch = source.microbatches(0, 1, 0)
        given, target = moved((batch.inputs[0], batch.targets[0]), device)
        found = measure_stages(stages, given, target, device, source.loss_for(batch.inputs), repeats)
    except PipeschedError:
        raise
    except Exception as error:
        raise failure_of(error, hint=hint_for(error, source)) from error
    tensors = [one for one in (given if isinstance(given, tuple) else (given,)) if isinstance(one, torch.Tensor)]
    sizes = (f"{','.join(map(str, size))} {str(dtype).removeprefix('torch.')}" for size, dtype in shapes_of(tensors))
    title = f"{name}, microbatch {' and '.join(sizes)}, {device.type}, torch {torch.__version__}"
    p2p, kind = list[Quartiles](), CUDA if torch.cuda.device_count() > 1 else CPU
    if len(found) > 1:
        with rank_processes(2, kind) as run:
            p2p = run(_play, kind, [one.sends for one in found[:-1]], repeats)[0]
    return Profile(title, count, microbatches or 2 * count, repeats, found, p2p)


def measure_stages(
    stages: Sequence[Any], data: Any, target: Any, device: Any, loss_fn: Callable[..., Any], repeats: int
) -> list[StageProfile]:
    """Return what stages take on a device, one after the other, with this input of the first and target of the last."""
    found, passed = [], list(data) if isinstance(data, tuple) else [data]
    for stage, module in enumerate(stages):
        runner = StageRunner(stage, len(stages), module.to(device), loss_fn, 0)
        measured, passed = _measured(runner, module, moved(target, device), moved(passed, device), repeats)
        found.append(measured)
    return found


def _measured(
    runner: StageRunner, module: Any, target: Any, data: Sequence[Any], repeats: int
) -> tuple[StageProfile, list[Any]]:
    """Return what a stage takes, and what it passes on; what it raises says in which operation."""
    transfers, kind = transfers_for(runner.device, None), "F"  # that of the operation that runs
    runner.begin_step(0)
    found: dict[str, list[float]] = {key: [] for key in TIMES}

    def time_of(key: str, run: Callable[..., Any], *given: Any, **options: Any) -> None:
        nonlocal kind
        kind = next(one.letter for one in KINDS.values() if one.cost == key)
        found[key].append(timed(lambda: run(*given, **options), runner.device))

    try:
        outputs, _ = runner.forward(0, data, target, again=False)
        gradients = [torch.ones_like(one) for one in outputs if one.is_floating_point()]
        activation = runner.live_bytes(0)
        runner.backward(0, gradients)
        for _ in range(repeats + WARM_UP):
            time_of("forward", runner.forward, 0, data, target, again=False)
            time_of("backward", runner.backward, 0, gradients)
            time_of("forward", runner.forward, 0, data, target, again=False)
            time_of("backward_input", runner.input_gradient, 0, gradients)
            retained = runner.live_bytes(0)
            time_of("backward_weight", runner.weight_gradient, 0)
            runner.forward(0, data, target, again=True)
            time_of("recompute", runner.recompute, 0)
            here: Any = runner.held[0].activation
            time_of("offload", transfers.offload, here)
            time_of("reload", transfers.load, here)
            transfers.before_backward(here)
            runner.backward(0, gradients)
            transfers.finish()
    except Exception as error:
        add_place(error, f"{runner.stage}{kind}0")
        raise
    counted = {key: values[WARM_UP * len(values) // (repeats + WARM_UP) :] for key, values in found.items()}
    times = {key: Quartiles(*quantiles(values, n=4, method="inclusive")) for key, values in counted.items()}
    kept = 0 if runner.is_first else sum(tensor.nbytes for tensor in data)
    static = sum(weight.nbytes * (1 + weight.requires_grad) for weight in module.parameters())
    retain, checkpoint = (part / activation if activation else 0.0 for part in (retained, kept))
    return StageProfile(times, activation, retain, checkpoint, static, shapes_of(outputs)), outputs


def timed(work: Callable[[], Any], device: Any) -> float:
    """Return the milliseconds of one call; on a GPU by its events."""
    if device.type != "cuda":
        begin = time.perf_counter()
        work()
        return (time.perf_counter() - begin) * 1000
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize(device)
    start.record()
    work()
    torch.cuda.synchronize(device)  # transfers have streams of their own
    end.record()
    end.synchronize()
    milliseconds: float = start.elapsed_time(end)
    return milliseconds


def _play(rank: int, kind: str, messages: Sequence[Sequence[Shape]], repeats: int) -> list[Quartiles]:
    """Return how long the tensors of each message take from one of two processes to the other: half a round trip, ms.

    The times of the first process count.
    """
    import torch.distributed as dist

    device, spreads = take_device(rank, kind), []
    for message in messages:
        balls = [torch.zeros(shape.size, dtype=shape.dtype, device=device) for shape in message]

        def round_trip(balls: Sequence[Any] = balls) -> None:
            for sender in (0, 1):
                for ball in balls:
                    (dist.send if rank == sender else dist.recv)(ball, 1 - rank)

        halves = [timed(round_trip, device) / 2 for _ in range(repeats + WARM_UP)][WARM_UP:]
        spreads.append(Quartiles(*quantiles(halves, n=4, method="inclusive")))
    return spreads


def config_text(profile: Profile, *, split_backward: bool = True) -> ConfigText:
    """Return the config of what was measured: medians, with the middle half of the rounds as a comment.

    Of the backward it gives the whole and both halves, or the whole alone; the halves then stand there as a comment. I
    and W one after the other take longer than B, because what both need is done twice.
    """
    config, stages = ConfigWriter(), profile.stages
    config.remark(
        f"Measured by pipesched profile: {profile.title}",
        f"Times are medians of {profile.repeats} rounds, and the quartiles stand behind them.",
        "Stage 0 gives no gradient of its input, so its whole backward is done at W.",
    )
    config.put("devices", profile.devices)
    config.put("stages", len(stages))
    config.put("microbatches", profile.microbatches)
    config.put("time_unit", "ms")
    config.gap()
    with config.section("costs"):
        halves = ("backward_input", "backward_weight")
        off = set() if split_backward else {*halves}
        rows = {**{key: [stage.times[key] for stage in stages] for key in TIMES}, "p2p": profile.p2p}
        for key in ("forward", *halves, "backward", "recompute", "offload", "reload", "p2p"):
            if key == "backward_input":
                config.remark(BACKWARD)
            medians = [round(spread.median, PLACES) for spread in rows[key]]
            quartiles = ", ".join(f"{spread.q1:.3g}..{spread.q3:.3g}" for spread in rows[key])
            config.numbers(key, medians, quartiles, off=key in off, listed=True)
    config.gap()
    with config.section("memory"):
        config.put("unit", "MB")
        config.numbers("activation", [Fraction(stage.activation, MEGABYTE) for stage in stages], listed=True)
        config.remark(RETAINED)
        config.numbers("retain", [stage.retain for stage in stages], listed=True)
        config.remark("of an activation that is recomputed, its input:")
        config.numbers("checkpoint", [min(stage.checkpoint, 1.0) for stage in stages], listed=True)
        config.remark("weights and their gradients, without the state of an optimizer:")
        config.numbers("static", [Fraction(stage.static, MEGABYTE) for stage in stages], listed=True)
    return config.text


def profile_document(profile: Profile) -> dict[str, Any]:
    """Return the document of a profile: times in ms, sizes in bytes."""
    return {
        "format": "pipesched.profile",
        "version": 1,
        **{key: getattr(profile, key) for key in ("title", "devices", "microbatches", "repeats")},
        "time_unit": "ms",
        "stages": [
            {
                **{key: stage.times[key]._asdict() for key in TIMES},
                **{key: getattr(stage, key) for key in ("activation", "retain", "checkpoint", "static")},
            }
            for stage in profile.stages
        ],
        "p2p": [spread._asdict() for spread in profile.p2p],
    }
