"""A model with a pipeline and without one: how far apart losses and gradients are, on one rank each.

`compare_rank` takes blocks of its own, for the self-test, `verify_rank` the user's model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from math import isfinite, prod
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from pipesched.errors import ConfigError
from pipesched.runtime.devices import CUDA, take_device
from pipesched.runtime.model_source import joined, pieces_of, seeded
from pipesched.runtime.profiling import StageProfile, measure_stages
from pipesched.runtime.program import checked_schedule
from pipesched.runtime.run import Runtime
from pipesched.runtime.training_data import Microbatches, dtype_named, moved
from pipesched.runtime.weight_copies import tied_weights

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

    `sizes` are those of each microbatch in the last step, and turn round in the steps before.
    """
    device, problem, number = take_device(rank, kind), checked_schedule(source).problem, dtype_named(dtype)
    expected, modules = ([block.to(device) for block in blocks(problem.stages, number)] for _ in range(2))
    turned = [sizes and [*sizes[left:], *sizes[:left]] for left in range(steps - 1, -1, -1)]
    made = [batch(problem.microbatches, number, each) for each in turned]
    batches = [Microbatches(moved(one.inputs, device), moved(one.targets, device), one.weights) for one in made]
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
    number, device = dtype_named(dtype), take_device(rank, kind)
    given = batch(1, number)
    return measure_stages(blocks(3, number), given.inputs[0], given.targets[0], device, loss_of, repeats=2)


def verify_rank(rank: int, job: Any, batches: Any) -> dict[str, Any] | None:
    """Compare the stages of this rank, of a TrainRequest; the first one returns the document. Raises ConfigError."""
    problem, placement = job.schedule.problem, job.schedule.problem.settled_placement
    whole = joined(pieces_of(job.model), problem)
    types = {str(weight.dtype).removeprefix("torch.") for piece in whole for weight in piece.parameters()}
    for few in sorted(types - APART_AT_MOST.keys()):
        raise ConfigError(f"has weights of {few}; gradients are compared in {' or '.join(APART_AT_MOST)}", "model")
    states = [[piece.state_dict() for piece in whole]]
    dist.broadcast_object_list(states)  # a model may draw its weights, on each rank others
    for piece, state in zip(whole, states[0], strict=True):
        piece.load_state_dict(state)
    pieces, whole = ([piece.to(batches.device) for piece in made] for made in (deepcopy(whole), whole))
    mine = {stage: pieces[stage] for stage in (placement.stages_on(rank) if rank < problem.devices else ())}
    run = Runtime(job.schedule, mine, batches.loss, tied=tied_weights(pieces), seed=job.seed)
    batches.take(0)
    given = Microbatches(batches.inputs, batches.targets, job.shares)
    found = run.step(*given)
    right = train_unpipelined(whole, given, loss=batches.loss, seed=job.seed)
    run.close()
    due = [one for one in range(len(right)) if placement.device(problem.stages - 1, one, len(right)) == rank]
    most = {(-1, "losses"): max([apart(found.get(one, torch.inf), right[one]) for one in due], default=0.0)}
    for stage, piece in mine.items():
        for (name, ours), theirs in zip(piece.named_parameters(), whole[stage].parameters(), strict=True):
            most[stage, name] = apart(ours.grad, theirs.grad)
    every: list[Any] = [None] * problem.devices
    dist.all_gather_object(every, most)
    for one in every:  # of a stage with two copies two ranks have its parameters
        most |= {key: max(value, most.get(key, 0.0)) for key, value in one.items()}
    limit = max((APART_AT_MOST[one] for one in types), default=APART_AT_MOST["float32"])
    passed = max(most.values()) <= limit
    finite = {key: value if isfinite(value) else None for key, value in sorted(most.items(), key=lambda one: -one[1])}
    losses = finite.pop((-1, "losses"))
    parameters = [{"stage": stage, "parameter": name, "apart": value} for (stage, name), value in finite.items()]
    content = {"passed": passed, "limit": limit, "losses": losses, "parameters": parameters}
    return None if rank else {"format": "pipesched.verification", "version": 1, **content}
