"""What the model of residuals looks at of a training run, `facts_of`: its GPU, model, layout, and who ran it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Any, NamedTuple

from pipesched.estimation.hardware import BF16, LOW, GpuModel
from pipesched.estimation.model import ModelShape
from pipesched.estimation.setup import SIZES, Setup, TrainingSetup
from pipesched.schedulers.registry import FAMILIES, family, own_name

A100, DENSE, EXPERTS = KINDS = ("a100", "dense", "experts")
HOPPERS, BLACKWELLS = ("h100", "h200", "h800", "h20"), ("b200", "gb200", "b300", "gb300")
GPU_FAMILIES = {"a100": "A100", **dict.fromkeys(HOPPERS, "H100"), **dict.fromkeys(BLACKWELLS, "B200")}
AMD = "mi"
FIELDS = ("tensor", "pipeline", "chunks", "context", "expert", "gpus", "tokens")
FEWEST_TOKENS = 256  # of a microbatch on a rank, from which their octaves count
SHARES = ("core", "memory", "network", "kernel", "latency", "data_exposed", "tensor_exposed")
ZERO_BUBBLE = "zb"


class RunFacts(NamedTuple):
    """A training run as far as runs are compared. `model` names a shape, `gpu` a preset, `split` sequence parallelism.

    `sequence` are the tokens of a sequence, `micro` the sequences of a microbatch. `shard` is what data-parallel ranks
    divide; of a run that is asked about "" where its schedule has no gathers and reductions. Of a `precision` in 16
    bits and more it is bf16.
    """

    model: str
    hidden: int
    experts: int
    latent: bool
    gpu: str
    gpus: int
    tensor: int
    pipeline: int
    chunks: int
    context: int
    expert: int
    expert_tensor: int
    split: bool
    sequence: int
    micro: int
    recompute: str
    tensor_overlap: bool
    algorithm: str
    shard: str = ""
    precision: str = BF16

    @property
    def is_low(self) -> bool:
        return self.precision in LOW

    @property
    def family(self) -> str:
        """The family of the GPU, whose members reach much the same shares of their numbers."""
        start = self.gpu.partition("-")[0]
        return "MI" if start.startswith(AMD) and start[2:3].isdigit() else GPU_FAMILIES.get(start, self.gpu)

    @property
    def kind(self) -> str:
        """The kind of run: with experts, or dense and on an A100, or dense and on another GPU."""
        return EXPERTS if self.experts else A100 if self.family == GPU_FAMILIES["a100"] else DENSE

    @property
    def tokens(self) -> int:
        return self.sequence * self.micro // self.context

    @property
    def layout(self) -> tuple[object, ...]:
        """What two runs of one layout have in common, whatever their numbers of GPUs."""
        ways = (self.tensor, self.pipeline, self.context, self.expert, self.expert_tensor)
        return (*ways, self.micro, self.recompute, self.tensor_overlap, self.split)


def facts_of(setup: Setup, algorithm: str) -> RunFacts:
    """Return the facts of a setup under an algorithm."""
    parallel, batch, training = setup.parallel, setup.batch, setup.training
    sizes = {key: getattr(parallel, key) for key in ("gpus", *SIZES)}
    return facts_with(
        setup.model, setup.hardware, training, split=parallel.spread > 1, **sizes, sequence=batch.sequence,
        micro=batch.micro, recompute=training.recompute, algorithm=schedule_of(algorithm), shard=training.shard or "",
    )  # fmt: skip


def facts_with(model: ModelShape, hardware: GpuModel, training: TrainingSetup, **layout: Any) -> RunFacts:
    """Return the facts of a model on GPUs, with those of a layout, and of how it trains."""
    precision = layout.pop("precision", training.precision)
    return RunFacts(
        shape_of(model), model.hidden, model.experts.count if model.experts else 0, model.latent is not None,
        gpu=hardware.name, tensor_overlap=training.tensor_overlap, precision=precision if precision in LOW else BF16,
        **layout,
    )  # fmt: skip


def shape_of(model: ModelShape) -> str:
    """Return a text that models of the same layers have in common, whatever their vocabulary."""
    parts = [model.layers, model.hidden, model.query, model.key, model.ffn]
    if model.experts is not None:
        parts += [model.experts.count, model.experts.active, model.experts.width]
    return "x".join(map(str, parts))


def schedule_of(algorithm: str) -> str:
    """Return what an algorithm counts as: Zero Bubble's schedules of one stage a device are one."""
    name = own_name(algorithm)
    is_one = name in FAMILIES and name.startswith(f"{ZERO_BUBBLE}-") and family(name).chunks == 1
    return ZERO_BUBBLE if is_one else name


@dataclass(frozen=True)
class ComparedRun:
    """A run with who ran it, and what each share of the GPU's numbers is for its step.

    A `source` has versions, of software or of a table. `weights`, in the order of SHARES, say by which power of a share
    the step grows as that falls: 1 where all of the step goes with it.
    """

    source: str
    version: str
    facts: RunFacts
    weights: tuple[float, ...] = (0.0,) * len(SHARES)

    @cached_property
    def octaves(self) -> tuple[float, ...]:
        """The sizes in FIELDS, as doublings: log2 of each, of tokens from FEWEST_TOKENS on."""
        sizes = [getattr(self.facts, key) for key in FIELDS[:-1]]
        return (*map(log2, sizes), max(0.0, log2(self.facts.tokens / FEWEST_TOKENS)))
