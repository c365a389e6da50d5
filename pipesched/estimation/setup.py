"""A training run as it is asked for: a model on GPUs, how it is laid out on them, its batch, and how it trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from pipesched.checks import require_flag, require_name, require_number, require_sequence, require_whole, shown
from pipesched.errors import ConfigError
from pipesched.estimation.hardware import GpuModel
from pipesched.estimation.model import (
    ModelShape,
    nearest_divisors,
    nearest_multiples,
    require_experts,
    require_stages,
    require_tensor,
)
from pipesched.pipeline.quantities import Exact
from pipesched.pipeline.step import LEVELS, NOTHING, OPTIMIZER_STATES

BF16, FP16, FP32 = PRECISIONS = ("bf16", "fp16", "fp32")
NONE, SELECTIVE, FULL = RECOMPUTES = ("none", "selective", "full")
RING, GATHER = CONTEXTS = ("ring", "gather")
ADAM, ADAM_BF16, MUON, SGD = OPTIMIZERS = ("adam", "adam-bf16", "muon", "sgd")
AUTO = "auto"
MOST_STATES = 1_000  # bytes of a parameter
MOST = 1_000_000_000  # GPUs, tokens or sequences
SHARD_RANKS = "parallel.shard_ranks"
SIZES = ("tensor", "pipeline", "chunks", "context", "expert", "expert_tensor")


@dataclass(frozen=True)
class Parallel:
    """How a model is laid out: over how many ranks each way of parallelism spreads it.

    `gpus` is the product of `tensor`, `pipeline`, `context` and the data-parallel ranks. A device of the pipeline holds
    `chunks` stages. Experts spread over `expert` ranks, each of them over `expert_tensor`. `sequence`: what tensor
    parallelism leaves whole is split along the sequence. `shard_ranks` of the ranks that would hold the same parameters
    divide them (None: all). Raises ConfigError, about the field at fault.
    """

    gpus: int
    tensor: int = 1
    pipeline: int = 1
    chunks: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 1
    sequence: bool = False
    shard_ranks: int | None = None

    def __post_init__(self) -> None:
        for key in ("gpus", *SIZES):
            require_whole(getattr(self, key), f"parallel.{key}", least=1, most=MOST)
        require_flag(self.sequence, "parallel.sequence")
        ways = self.tensor * self.pipeline * self.context
        if self.gpus % ways:
            of = f"tensor x pipeline x context = {self.tensor} x {self.pipeline} x {self.context} = {ways}"
            near = nearest_multiples(self.gpus, ways)
            raise ConfigError(f"must be a multiple of {of}, for instance {near}, not {self.gpus}", "parallel.gpus")
        mine, all_ranks = self.expert * self.expert_tensor, self.tensor * self.context * self.data
        if all_ranks % mine:
            each = f" x expert_tensor {self.expert_tensor}" if self.expert_tensor > 1 else ""
            common = self.expert_tensor if all_ranks % self.expert_tensor == 0 else 1
            what = f"expert {self.expert}{each} must divide tensor x context x data = {all_ranks}"
            near = nearest_divisors(self.expert, all_ranks // common)
            raise ConfigError(f"{what}: for instance {near}", "parallel.expert")
        if self.shard_ranks is not None:
            require_whole(self.shard_ranks, SHARD_RANKS, least=1, most=MOST)

    @property
    def data(self) -> int:
        """The data-parallel ranks."""
        return self.gpus // (self.tensor * self.pipeline * self.context)

    @property
    def expert_data(self) -> int:
        """The ranks that hold the same experts."""
        return self.tensor * self.context * self.data // (self.expert * self.expert_tensor)

    @property
    def stages(self) -> int:
        """The stages of the pipeline."""
        return self.pipeline * self.chunks

    @property
    def spread(self) -> int:
        """Over how many ranks sequence parallelism splits what tensor parallelism leaves whole."""
        return self.tensor if self.sequence else 1


@dataclass(frozen=True)
class TokenBatch:
    """The tokens of a step: sequences of a length, `micro` in a microbatch, `size` in the step over all GPUs.

    Where documents are packed into sequences, `lengths` are theirs, for each microbatch of a data-parallel rank;
    `sequence` is then the longest, and `micro` 1.
    """

    sequence: int
    micro: int
    size: int
    lengths: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        for field, key in (("sequence", "sequence"), ("micro", "micro"), ("size", "global")):
            require_whole(getattr(self, field), f"batch.{key}", least=1, most=MOST)

    @property
    def totals(self) -> list[int]:
        """The tokens of each microbatch of a data-parallel rank, where its documents are given."""
        return [*map(sum, self.lengths or ())]

    @property
    def attended(self) -> int | Fraction:
        """The tokens whose scores a token needs, in the mean of the longest microbatch; causal ones half of them.

        That is the sequence, or of packed documents (sum of l^2) / (sum of l).
        """
        if self.lengths is None:
            return self.sequence
        documents = max(self.lengths, key=sum)
        squares, tokens = sum(length**2 for length in documents), sum(documents)
        return squares // tokens if squares % tokens == 0 else Fraction(squares, tokens)


def packed(lengths: Sequence[Sequence[int]], data: int) -> TokenBatch:
    """Return the batch of the documents of each microbatch of one of `data` ranks, all of which have as many tokens.

    Single documents of one length are plain sequences. Raises ConfigError about `batch.lengths`.
    """
    if not isinstance(lengths, (list, tuple)) or not lengths:
        raise ConfigError(f"must list the documents of each microbatch, not {shown(lengths)}", "batch.lengths")
    for entry, documents in enumerate(lengths):
        if not isinstance(documents, (list, tuple)) or not documents:
            said = f"must list the lengths of documents, not {shown(documents)}"
            raise ConfigError(said, "batch.lengths", entry=entry)
        for number, length in enumerate(documents):
            require_whole(length, f"batch.lengths[{entry}]", entry=number, least=1, most=MOST)
    given = tuple(map(tuple, lengths))
    longest = max(map(sum, given))
    is_plain = len({*given}) == 1 and len(given[0]) == 1
    return TokenBatch(longest, 1, len(given) * data, None if is_plain else given)


@dataclass(frozen=True)
class TrainingSetup:
    """How a model trains: numbers, what is kept of activations, and what overlaps.

    `gradients` is the precision of the main gradients. `optimizer` is its name, or how many bytes of states it keeps
    of a parameter, the 32-bit copy of the weight among them. `shard` says what data-parallel ranks divide, as steps
    have it: none, optimizer, gradients or weights (ZeRO 0 to 3); None leaves gradients and parameters out of the
    schedule, and `distributed_optimizer` says whether states are divided. With `shard` that follows. `recompute` is
    none, selective (the core of attention) or full, the latter of `full_layers` of each stage (None: all). `layout`
    lists the layers of each stage, or is a rule (balanced, equal); None finds the best for an algorithm. By `context`,
    ranks that share a sequence pass keys and values round a ring, or gather all of them first.

    Raises ConfigError, about the field at fault.
    """

    precision: str = BF16
    gradients: str = FP32
    distributed_optimizer: bool = True
    recompute: str = NONE
    full_layers: int | None = None
    flash_attention: bool = True
    tensor_overlap: bool = False
    fused_loss: bool = False
    layout: tuple[int, ...] | str | None = None
    context: str = RING
    shard: str | None = None
    optimizer: str | Exact = ADAM

    def __post_init__(self) -> None:
        if isinstance(self.optimizer, str):
            require_name(OPTIMIZERS, self.optimizer, "optimizer", "training.optimizer")
        else:
            require_number(self.optimizer, "training.optimizer", most=MOST_STATES)
        if self.precision == "fp8":
            raise ConfigError("fp8 is not estimated; known are bf16, fp16 and fp32", "training.precision")
        require_name(PRECISIONS, self.precision, "precision", "training.precision")
        require_name((FP32, BF16), self.gradients, "precision of gradients", "training.gradients")
        for key in ("distributed_optimizer", "flash_attention", "tensor_overlap", "fused_loss"):
            require_flag(getattr(self, key), f"training.{key}")
        require_name(RECOMPUTES, self.recompute, "recompute", "training.recompute")
        require_name(CONTEXTS, self.context, "exchange of keys and values", "training.context")
        if self.shard is not None:
            require_name(LEVELS, self.shard, "level", "training.shard")
            object.__setattr__(self, "distributed_optimizer", self.shard != NOTHING)
        if self.full_layers is not None:
            require_whole(self.full_layers, "training.recompute", least=1)
        if self.layout is not None and not isinstance(self.layout, str):
            if not isinstance(self.layout, (list, tuple)):
                allowed = "best, balanced, equal, the layers of each stage, or a text of Megatron-LM: Et*9|t*10|.."
                raise ConfigError(f"must be {allowed}; not {shown(self.layout)}", "training.layout")
            counts = require_sequence(self.layout, "training.layout")
            layout = tuple(require_whole(count, "training.layout", entry=i) for i, count in enumerate(counts))
            object.__setattr__(self, "layout", layout)

    @property
    def level(self) -> str:
        """What data-parallel ranks divide, also where `shard` does not say it."""
        return self.shard or (OPTIMIZER_STATES if self.distributed_optimizer else NOTHING)

    def divides(self, what: str) -> bool:
        """Return whether each rank keeps only its part of what a level is named after."""
        return LEVELS.index(self.level) >= LEVELS.index(what)


class ShardGroup(NamedTuple):
    """Ranks that divide parameters among them, `apart` GPUs from each other; so many `replicas` of them are alike."""

    ranks: int
    replicas: int
    apart: int


@dataclass(frozen=True)
class Setup:
    """A model, the GPUs it trains on, and how. Raises ConfigError, about a key, where sizes do not divide."""

    model: ModelShape
    hardware: GpuModel
    parallel: Parallel
    batch: TokenBatch
    training: TrainingSetup
    name: str = ""

    def __post_init__(self) -> None:
        require_tensor(self.model, self.parallel.tensor)
        require_experts(self.model, self.parallel.expert, self.parallel.expert_tensor)
        require_stages(self.model, self.parallel.pipeline, self.parallel.chunks)
        self._require_sequence()
        self._require_batch()
        self._require_groups()

    def shard_group(self, *, experts: bool = False) -> ShardGroup:
        """Return the ranks that divide the parameters of a rank, or those of its `experts`.

        Ranks of a node come first. Where nothing is divided all that hold the same are one group.
        """
        parallel, training = self.parallel, self.training
        own = parallel.data * parallel.context
        all_ranks, apart = own, parallel.tensor
        if experts:
            all_ranks, apart = parallel.expert_data, parallel.expert * parallel.expert_tensor
        if training.shard in (None, NOTHING):
            return ShardGroup(all_ranks, 1, apart)
        ranks = min(own if parallel.shard_ranks is None else parallel.shard_ranks, all_ranks)
        return ShardGroup(ranks, all_ranks // ranks, apart)

    def shard_parts(self, dense: Fraction, experts: Fraction) -> list[tuple[str, Fraction, ShardGroup]]:
        """Return the parameters of a rank that several hold: what they are called, how many, and which ranks."""
        parts = [("", dense, self.shard_group()), (" of experts", experts, self.shard_group(experts=True))]
        return [part for part in parts if part[1]]

    @property
    def tokens(self) -> int:
        """The tokens of a microbatch on a rank, before tensor parallelism."""
        return self.batch.sequence * self.batch.micro // self.parallel.context

    @property
    def microbatches(self) -> int:
        """The microbatches of a step."""
        return self.batch.size // (self.batch.micro * self.parallel.data)

    @property
    def tokens_of_step(self) -> int:
        """The tokens of a step over all GPUs."""
        if self.batch.lengths is not None:
            return sum(self.batch.totals) * self.parallel.data
        return self.batch.sequence * self.batch.size

    @property
    def of_microbatches(self) -> list[Setup]:
        """The setup with each microbatch alone, where documents are packed; alike ones are the same object."""
        lengths = self.batch.lengths or ()
        each = [replace(self.batch, sequence=sum(documents), lengths=(documents,)) for documents in lengths]
        known = {batch: replace(self, batch=batch) for batch in dict.fromkeys(each)}
        return [known[batch] for batch in each]

    @property
    def padded_vocabulary(self) -> int:
        """The vocabulary as it is stored."""
        return self.model.padded(self.parallel.tensor)

    def _require_groups(self) -> None:
        """Raise ConfigError for groups of ranks that do not divide those with the same parameters."""
        parallel, own = self.parallel, self.parallel.data * self.parallel.context
        ranks = own if parallel.shard_ranks is None else parallel.shard_ranks
        if self.training.shard is None and parallel.shard_ranks is not None:
            what = "has no effect without `training.shard`, which says what these ranks divide"
            raise ConfigError(what, SHARD_RANKS)
        if own % ranks:
            near = nearest_divisors(ranks, own)
            raise ConfigError(f"must divide data x context = {own}: for instance {near}, not {ranks}", SHARD_RANKS)
        of_experts, alike = self.shard_group(experts=True), parallel.expert_data
        if of_experts.ranks * of_experts.replicas != alike:
            what = f"{of_experts.ranks} do not divide the {alike} ranks with the same experts"
            raise ConfigError(f"{what}: for instance {nearest_divisors(of_experts.ranks, alike)}", SHARD_RANKS)

    def _require_sequence(self) -> None:
        parallel, tokens = self.parallel, self.batch.sequence
        if self.batch.lengths is not None:
            return  # trainers pad what they pack
        if tokens % parallel.context:
            near = f"{nearest_divisors(parallel.context, tokens)}, not {parallel.context}"
            raise ConfigError(f"must divide the sequence of {tokens}: for instance {near}", "parallel.context")
        inner = tokens // parallel.context
        if parallel.sequence and inner % parallel.tensor:
            what = f"the {inner} tokens of a rank do not divide by tensor {parallel.tensor}"
            raise ConfigError(f"{what}: give sequence: false", "parallel.sequence")

    def _require_batch(self) -> None:
        each = self.batch.micro * self.parallel.data
        if self.batch.size % each:
            of = f"micro x data = {self.batch.micro} x {self.parallel.data} = {each}"
            near = f"{nearest_multiples(self.batch.size, each)}, not {self.batch.size}"
            raise ConfigError(f"must be a multiple of {of}, for instance {near}", "batch.global")
        rows = self.model.position_rows
        if rows and self.batch.sequence > rows:
            most = f"at most the {rows} learned positions"
            raise ConfigError(f"must be {most}, not {shown(self.batch.sequence)}", "batch.sequence")
