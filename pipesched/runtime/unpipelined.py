"""A small model with a pipeline and without one: how far losses and gradients are apart, and what a rank holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import torch

from pipesched.runtime.devices import CUDA, take_device
from pipesched.runtime.model_source import seeded
from pipesched.runtime.profiling import StageProfile, measure_stages
from pipesched.runtime.program import checked_schedule
from pipesched.runtime.run import Runtime
from pipesched.runtime.training_data import Microbatches, dtype_named, moved

WIDTH, ROWS = 32, 16
SEED = 7
STEPS = 2  # the second one has gradients and shapes of messages already
APART_AT_MOST = {"float64": 1e-9, "float32": 1e-4}  # losses and gradients: what the order of sums changes of them
Sizes = Sequence[Sequence[int]] | None  # of the inputs of each microbatch; None: ROWS each


class ResidualBlock(torch.nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A residual block with everything that makes graphs less than a chain: normalization, dropout, shared weights."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.first, self.second = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)
        self.shared = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.dropout = torch.nn.Dropout(0.25)

    def forward(self, data: Any) -> Any:
        """Return the sum of both branches."""
        inner = self.second(torch.tanh(self.first(self.norm(data))))
        return self.shared(self.dropout(inner)) + self.shared(data)


def loss_of(output: Any, target: Any) -> Any:
    """Return the mean squared error; a target of one element stands for all."""
    return torch.nn.functional.mse_loss(output, target.expand_as(output))


def blocks(stages: int, dtype: Any) -> list[Any]:
    """Return a block for each stage, the same on every rank."""
    torch.manual_seed(5)
    return [ResidualBlock().to(dtype) for _ in range(stages)]


def batch(microbatches: int, dtype: Any, sizes: Sizes = None) -> Microbatches:
    """Return what a step trains on: ROWS of each microbatch; or of the sizes given for each, weighed by their rows."""
    generator = torch.Generator().manual_seed(1000)

    def drawn(*size: int) -> Any:
        return torch.randn(2, *size, WIDTH, dtype=torch.float64, generator=generator).to(dtype)

    if sizes is None:
        inputs, targets = drawn(microbatches, ROWS)
        return Microbatches(inputs, targets)
    inputs, targets = zip(*(drawn(*size) for size in sizes), strict=True)
    rows = [prod(size) for size in sizes]
    return Microbatches(inputs, targets, [one / sum(rows) for one in rows])


def batches_of_steps(microbatches: int, dtype: Any, steps: int, sizes: Sizes, device: Any) -> Iterator[Microbatches]:
    """Yield what each step trains on; the sizes are those of the last one, and turn round in the steps before."""
    for left in range(steps - 1, -1, -1):
        made = batch(microbatches, dtype, sizes and [*sizes[left:], *sizes[:left]])
        yield Microbatches(moved(made.inputs, device), moved(made.targets, device), made.weights)


def train_unpipelined(
    modules: Sequence[Any], given: Microbatches, step: int = 0, loss: Callable[..., Any] = loss_of, seed: int = SEED
) -> list[Any]:
    """Return the losses of a step without a pipeline; the gradients are added to `.grad`."""
    losses = []
    for microbatch, value in enumerate(given.inputs):
        for stage, module in enumerate(modules):
            with seeded(seed, step, stage, microbatch):
                value = module(*value) if isinstance(value, (tuple, list)) else module(value)  # noqa: PLW2901
                if stage == len(modules) - 1:
                    found = loss(value, given.targets[microbatch])
        (found if given.weights is None else found * given.weights[microbatch]).backward()
        losses.append(found.detach())
    return losses


class RankComparison(NamedTuple):
    """What a rank did: its operations, how far gradients and losses are from the right ones, what it reported.

    `microbatches` are those whose losses it has. `allocated` are the bytes that a GPU had allocated at most behind an
    operation of the last step, less those before the step.
    """

    executed: list[str]
    gradients: float
    losses: float
    microbatches: list[int]
    report: dict[str, Any]
    allocated: int | None


def compare_rank(
    rank: int, source: object, kind: str, dtype: str, group: Any = None, steps: int = STEPS, sizes: Sizes = None
) -> RankComparison:
    """Train the stages of this rank by a schedule, and hold them against the same model without a pipeline.

    `sizes` are those of each microbatch in the last step; see `batches_of_steps`.
    """
    device, problem, number = take_device(rank, kind), checked_schedule(source).problem, dtype_named(dtype)
    expected, modules = ([block.to(device) for block in blocks(problem.stages, number)] for _ in range(2))
    batches = [*batches_of_steps(problem.microbatches, number, steps, sizes, device)]
    right = [train_unpipelined(expected, one, step) for step, one in enumerate(batches)][-1]
    placement, last = problem.settled_placement, problem.stages - 1
    mine, executed, levels = placement.stages_on(rank), list[str](), list[int]()
    for stage in mine:
        if placement.devices[stage] != rank:  # the second copy gets the weights of the first one
            torch.nn.init.zeros_(modules[stage].first.weight)

    def note(op: str) -> None:
        executed.append(op)
        levels.append(torch.cuda.memory_allocated(device) if kind == CUDA else 0)

    run = Runtime(source, {stage: modules[stage] for stage in mine}, loss_of, group, seed=SEED, on_op=note)
    for one in batches:
        executed.clear()
        levels[:] = [torch.cuda.memory_allocated(device) if kind == CUDA else 0]
        losses = run.step(one.inputs if 0 in mine else None, one.targets if last in mine else None, one.weights)
    run.close()
    ours, theirs = ([weight for stage in mine for weight in found[stage].parameters()] for found in (modules, expected))
    gradients = max(apart(one.grad, two.grad) for one, two in zip(ours, theirs, strict=True))
    due = [one for one in range(len(right)) if placement.device(last, one, len(right)) == rank]
    of_losses = max([apart(losses.get(one, torch.inf), right[one]) for one in due], default=0.0)
    allocated = max(levels) - levels[0] if kind == CUDA else None
    return RankComparison(executed, gradients, of_losses, sorted(losses), run.report(), allocated)


def apart(ours: Any, theirs: Any) -> float:
    """Return the largest |a - b| / max(1, |b|) of two tensors, None for zeros; infinity for what is no number."""
    if theirs is None:
        return 0.0 if ours is None else apart(ours, torch.zeros_like(ours))
    found = ((0 if ours is None else ours) - theirs).abs() / theirs.abs().clamp(min=1)
    return float(found.nan_to_num(torch.inf, torch.inf).max()) if found.numel() else 0.0


def activation_bytes(rank: int, kind: str, dtype: str) -> list[StageProfile] | None:
    """Return the profile of a first, a middle and a last stage, as the first rank measures it."""
    if rank:
        return None
    number = dtype_named(dtype)
    given = batch(1, number)
    return measure_stages(
        blocks(3, number), given.inputs[0], given.targets[0], take_device(rank, kind), loss_of, repeats=2
    )
