"""The model that plans train in tests, in stages and in one piece. Imported by the processes of the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from pipesched.runtime import Runtime, seeded

WIDTH, ROWS = 6, 3
SEED = 7


class Block(torch.nn.Module):  # type: ignore[misc]
    """A residual block with everything that makes graphs less than a chain: normalization, dropout, shared weights."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.first, self.second = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)
        self.shared = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, data: Any) -> Any:
        inner = self.second(torch.tanh(self.first(self.norm(data))))
        return self.shared(self.dropout(inner)) + self.shared(data)


def model(stages: int, dropout: float) -> list[Any]:
    """The stages, in float64; the same on every rank."""
    torch.manual_seed(5)
    return [Block(dropout).double() for _ in range(stages)]


def batch(microbatches: int) -> tuple[Any, Any]:
    """The inputs and targets of all microbatches."""
    generator = torch.Generator().manual_seed(1000)
    data, target = torch.randn(2, microbatches, ROWS, WIDTH, dtype=torch.float64, generator=generator)
    return data, target


loss_of = torch.nn.functional.mse_loss


def in_one_piece(modules: Sequence[Any], data: Any, target: Any, steps: int) -> list[Any]:
    """The losses of the last step of the model without a pipeline; gradients of all steps stand in `.grad`."""
    for step in range(steps):
        losses = []
        for microbatch in range(len(data)):
            value = data[microbatch]
            for stage, module in enumerate(modules):
                with seeded(SEED, step, stage, microbatch):
                    value = module(value)
                    if stage == len(modules) - 1:
                        loss = loss_of(value, target[microbatch])
            loss.backward()
            losses.append(loss.detach())
    return losses


class Trained(NamedTuple):
    """What a rank did: its operations, the largest errors of gradients and losses, and what it reported."""

    executed: list[str]
    gradient_error: float
    loss_error: float
    losses: list[int]
    report: dict[str, Any]


def train(rank: int, group: Any, source: Any, stages: int, microbatches: int, dropout: float, steps: int) -> Trained:
    """Steps of this rank's stages by a document, held against the model in one piece."""
    from pipesched.runtime.source import checked_schedule

    placement = checked_schedule(source).problem.settled_placement
    expected, modules = model(stages, dropout), model(stages, dropout)
    data, target = batch(microbatches)
    right = in_one_piece(expected, data, target, steps)
    executed: list[str] = []
    mine = placement.stages_on(rank)
    if placement.mirrored:
        for stage in mine:
            if placement.devices[stage] != rank:
                torch.nn.init.zeros_(modules[stage].first.weight)  # the other copy has the weights
    run = Runtime(source, {stage: modules[stage] for stage in mine}, loss_of, group, seed=SEED, on_op=executed.append)
    for _ in range(steps):
        executed.clear()
        losses = run.step(data if 0 in mine else None, target if stages - 1 in mine else None)
    worst = 0.0
    for stage in mine:
        for ours, theirs in zip(modules[stage].parameters(), expected[stage].parameters(), strict=True):
            worst = max(worst, float("inf") if ours.grad is None else float((ours.grad - theirs.grad).abs().max()))
    off = max((float((loss - right[microbatch]).abs()) for microbatch, loss in losses.items()), default=0.0)
    return Trained(executed, worst, off, sorted(losses), run.report())
