"""A training run as it is asked for: a model on GPUs, how it is laid out on them, its batch, and how it trains.

`Setup`, last, is where one begins: it holds the other records, and checks that their sizes divide. `declare` makes a
field a key of the config, an option of the command line, and a line of the starter (`live` as it stands there,
`example` as a comment). PARALLEL, BATCH and TRAINING are these keys, by name, for `setup_reader.py` and the options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.checks import (
    nearest_divisors,
    nearest_multiples,
    require_flag,
    require_name,
    require_number,
    require_sequence,
    require_whole,
    shown,
)
from pipesched.errors import ConfigError
from pipesched.estimation.hardware import (
    BF16,
    EFFICIENCY,
    FP32,
    PRECISIONS,
    RECIPES,
    GpuModel,
    Recipe,
    require_precision,
)
from pipesched.pipeline.plan.step import LEVELS, NOTHING, OPTIMIZER_STATES
from pipesched.pipeline.problem.quantities import Exact
from pipesched.pipeline.problem.shapes import (
    ByKey,
    Count,
    Either,
    Field,
    Flag,
    Label,
    ListOf,
    Number,
    OneOf,
    Searched,
    declare,
    declared,
)

if TYPE_CHECKING:
    from pipesched.estimation.model import ModelShape

NONE, SELECTIVE, FULL = RECOMPUTES = ("none", "selective", "full")
RING, GATHER = CONTEXTS = ("ring", "gather")
DEEPEP, ALLTOALL, ALLGATHER = DISPATCHERS = ("deepep", "alltoall", "allgather")
ADAM, ADAM_BF16, MUON, SGD = OPTIMIZERS = ("adam", "adam-bf16", "muon", "sgd")
MOST_STATES = 1_000  # bytes of a parameter
MOST = 1_000_000_000  # GPUs, tokens or sequences
SHARD_RANKS = "parallel.shard_ranks"
SIZES = ("tensor", "pipeline", "chunks", "context", "expert", "expert_tensor")


def _ranks(way: str, searched: str = "auto", **more: Any) -> Any:
    """Return the key of a way of parallelism: over how many ranks, 1 where it is not given."""
    return declare(Searched(Count()), f"{way}; default 1", 1, searched=searched, **more)


def _switch(text: str, default: bool) -> Any:
    """Return the key of something that is done or not, and that has no option."""
    said = str(default).lower()
    return declare(Flag(), f"{text}; default {said}", default, flag=None, example=said)


@dataclass(frozen=True)
class Parallel:
    """How a model is laid out: over how many ranks each way of parallelism spreads it.

    `gpus` is the product of `tensor`, `pipeline`, `context` and the data-parallel ranks. Of ranks that would hold the
    same parameters `shard_ranks` divide them (None: all). Raises ConfigError, about the field at fault.
    """

    gpus: int = declare(Count(), "on how many GPUs to train", live="8")
    tensor: int = _ranks("tensor parallelism", live="1", remark="splits each layer; within a node")
    pipeline: int = _ranks("pipeline parallelism", live="8", remark="devices of the pipeline")
    chunks: int = _ranks("stages of a device", live="1")
    context: int = _ranks("context parallelism", example="1", remark="splits the sequence")
    expert: int = _ranks("expert parallelism", live="1", remark="spreads experts; divides tensor x context x data")
    expert_tensor: int = _ranks("tensor parallelism of experts", "1", example="1", remark="splits each expert")
    sequence: bool = declare(
        Searched(Flag()), "sequence parallelism; default: with tensor parallelism", False, flag=None, example="true"
    )
    shard_ranks: int | None = declare(
        Searched(Count()),
        "among how many of these ranks; default: all",
        None,
        searched="all",
        example="1",
        remark="ranks that divide what `shard` says; default: data x context",
    )

    def __post_init__(self) -> None:
        for way in ("gpus", *SIZES):
            require_whole(getattr(self, way), f"parallel.{way}", least=1, most=MOST)
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
        return self.gpus // (self.tensor * self.pipeline * self.context)

    @property
    def expert_data(self) -> int:
        """The ranks that hold the same experts."""
        return self.tensor * self.context * self.data // (self.expert * self.expert_tensor)

    @property
    def stages(self) -> int:
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

    sequence: int = declare(Count(), "tokens of a sequence", live="4096")
    micro: int = declare(Searched(Count()), "sequences of a microbatch; default 1", searched="1", live="1")
    size: int = declare(
        Count(),
        "sequences of a step, over all GPUs",
        key="batch.global",
        flag="global-batch",
        live="32",
        remark="sequences of a step; microbatches = global / (micro x data) = {microbatches}",
    )
    lengths: tuple[tuple[int, ...], ...] | None = declare(
        ListOf(ListOf(Count(), 1), 1),
        "instead of the rest: lengths of the documents of each microbatch of a data-parallel rank",
        None,
        flag=None,
    )

    def __post_init__(self) -> None:
        for field, key in (("sequence", "sequence"), ("micro", "micro"), ("size", "global")):
            require_whole(getattr(self, field), f"batch.{key}", least=1, most=MOST)

    @property
    def totals(self) -> list[int]:
        """The tokens of each microbatch of a data-parallel rank, where its documents are given."""
        return [*map(sum, self.lengths or ())]

    @property
    def attended(self) -> int | Fraction:
        """The tokens whose scores a token needs in the longest microbatch: of documents (sum of l^2) / (sum of l)."""
        found = Fraction(sum(length**2 for length in self.documents), sum(self.documents))
        return int(found) if found.denominator == 1 else found

    @property
    def documents(self) -> tuple[int, ...]:
        """The lengths of the documents of the longest microbatch; of plain sequences that of one."""
        return (self.sequence,) if self.lengths is None else max(self.lengths, key=sum)


def packed(lengths: Sequence[Sequence[int]], data: int) -> TokenBatch:
    """Return the batch of documents, which is plain sequences where all have one length. Raises ConfigError."""
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

    Bytes of an `optimizer` count the 32-bit copy of the weight. `shard` None leaves gradients and parameters out of the
    schedule; `distributed_optimizer` says whether states are divided; with `shard` that follows. `recompute` full is of
    `full_layers` of each stage (None: all). `layout` None finds the best for an algorithm.

    Raises ConfigError, about the field at fault.
    """

    precision: str = declare(
        Searched(OneOf(*PRECISIONS)),
        "of products: bf16 (default), fp16, fp32, or fp8, fp8-blockwise, mxfp8, nvfp4 in linear layers",
        BF16,
        searched="bf16, fp16, fp32, fp8, fp8-blockwise, mxfp8, nvfp4; default bf16",
        live="bf16",
    )
    gradients: str = declare(
        OneOf(FP32, BF16),
        "of the main gradients; default fp32",
        FP32,
        called="precision of gradients",
        flag=None,
        example="fp32",
    )
    context: str = declare(
        OneOf(*CONTEXTS),
        "context-parallel ranks pass keys and values round a ring, or gather them; default ring",
        RING,
        called="exchange of keys and values",
        flag=None,
        example="ring",
    )
    dispatcher: str | None = declare(
        OneOf(*DISPATCHERS),
        "how tokens get to experts on other ranks: deepep (default; once to a node), alltoall (once for each expert) or"
        " allgather (all to all)",
        None,
        example="deepep",
    )
    shard: str | None = declare(
        Searched(OneOf(*LEVELS)),
        "what data-parallel ranks divide: none, optimizer, gradients or weights (ZeRO 0 to 3)",
        None,
        called="level",
        searched="what data-parallel ranks divide: none, optimizer, gradients, weights",
        example="optimizer",
        remark="or none, gradients, weights: gathers, reductions, optimizer are parts of the schedule",
    )
    recompute: str = declare(
        Searched(OneOf(*RECOMPUTES), ByKey({FULL: Count()}, (FULL,)), metavar="NAME|N", several="NAME|N[,..]|auto"),
        "none (default), selective, full, or full of N layers of each stage",
        NONE,
        searched="none, selective, full, or full of N layers of each stage; default none",
        live="none",
    )
    distributed_optimizer: bool = _switch("the optimizer's numbers are spread over data-parallel ranks (ZeRO-1)", True)
    flash_attention: bool = _switch("attention between tokens is fused", True)
    tensor_overlap: bool = _switch("tensor-parallel communication runs beside its products", False)
    fused_loss: bool = _switch("the loss never forms 32-bit logits", False)
    optimizer: str | Exact = declare(
        Either(OneOf(*OPTIMIZERS), Number(), metavar="NAME|X"),
        "adam (default), adam-bf16, muon, sgd, or the bytes of its states of a parameter",
        ADAM,
        example="adam",
    )
    layout: tuple[int, ...] | str | None = declare(
        Either(Label(), ListOf(Count(0))),
        "best (or auto), balanced, equal, the layers of each stage, or Megatron's text of them",
        None,
        flag=None,
        example="auto",
    )
    full_layers: int | None = None  # no key of its own: of `recompute: {full: N}`

    def __post_init__(self) -> None:
        if not isinstance(self.optimizer, str):
            require_number(self.optimizer, "training.optimizer", most=MOST_STATES)
        for name, field in declared(TrainingSetup, "training").items():
            value = getattr(self, name)
            if isinstance(field.shape, Flag):
                require_flag(value, field.key)
            elif field.shape.words and value is not None and (name != "optimizer" or isinstance(value, str)):
                require_name(field.shape.words, value, field.called or name, field.key)
        if self.shard is not None:
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


PARALLEL = {
    **declared(Parallel, "parallel"),
    "data": Field(
        "parallel.data",
        Count(),
        "derived: gpus / (tensor x pipeline x context); checked if given",
        flag=None,
        example="1",
    ),
}
BATCH = {field.key.partition(".")[2]: field for field in declared(TokenBatch, "batch").values()}
TRAINING = {
    **declared(TrainingSetup, "training"),
    "efficiency": Field(
        "training.efficiency",
        Either(Label(), EFFICIENCY),
        "measured shares of the GPU's numbers, or the name of a YAML file of them",
        flag=None,
        example="{gemm: 0.7}",
    ),
}


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
        from pipesched.estimation.model import require_experts, require_stages, require_tensor

        require_precision(self.hardware, self.training.precision)
        require_tensor(self.model, self.parallel.tensor)
        require_experts(self.model, self.parallel.expert, self.parallel.expert_tensor)
        require_stages(self.model, self.parallel.pipeline, self.parallel.chunks)
        parallel, tokens = self.parallel, self.batch.sequence
        inner = tokens // parallel.context
        if self.batch.lengths is None and tokens % parallel.context:  # trainers pad what they pack
            near = f"{nearest_divisors(parallel.context, tokens)}, not {parallel.context}"
            raise ConfigError(f"must divide the sequence of {tokens}: for instance {near}", "parallel.context")
        if self.batch.lengths is None and parallel.sequence and inner % parallel.tensor:
            what = f"the {inner} tokens of a rank do not divide by tensor {parallel.tensor}"
            raise ConfigError(f"{what}: give sequence: false", "parallel.sequence")
        each, rows = self.batch.micro * self.parallel.data, self.model.position_rows
        if self.batch.size % each:
            of = f"micro x data = {self.batch.micro} x {self.parallel.data} = {each}"
            near = f"{nearest_multiples(self.batch.size, each)}, not {self.batch.size}"
            raise ConfigError(f"must be a multiple of {of}, for instance {near}", "batch.global")
        if rows and self.batch.sequence > rows:
            most = f"at most the {rows} learned positions"
            raise ConfigError(f"must be {most}, not {shown(self.batch.sequence)}", "batch.sequence")
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
        if self.training.dispatcher is not None and self.model.experts is None:
            raise ConfigError(f"has no effect: {self.model.name} has no experts", "training.dispatcher")

    def shard_group(self, *, experts: bool = False) -> ShardGroup:
        """Return the ranks that divide the parameters of a rank, or its `experts`; else all with the same."""
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
    def recipe(self) -> Recipe | None:
        """How linear layers train in low precision; None where they do not."""
        return RECIPES.get(self.training.precision)

    @property
    def peak(self) -> float:
        """The peak rate of the products of linear layers, in TFLOP/s."""
        found: float = self.hardware.tflops if self.recipe is None else getattr(self.hardware, self.recipe.peak)
        return found

    @property
    def tokens(self) -> int:
        """The tokens of a microbatch on a rank, before tensor parallelism."""
        return self.batch.sequence * self.batch.micro // self.parallel.context

    @property
    def microbatches(self) -> int:
        return self.batch.size // (self.batch.micro * self.parallel.data)

    @property
    def tokens_of_step(self) -> int:
        """The tokens of a step over all GPUs."""
        if self.batch.lengths is not None:
            return sum(self.batch.totals) * self.parallel.data
        return self.batch.sequence * self.batch.size

    def of_layer(self, layer: int) -> Setup:
        """Return the setup as if all layers were like that one."""
        return replace(self, model=self.model.of(layer)) if self.model.kinds else self

    @cached_property
    def neighbours(self) -> int:
        """How many GPUs of the run the links of a node join; of a rack (`nvlink_gpus`) those that it has of the run.

        Racks have equal parts of a run, 64 of 72 where it has 256, unless they would be half empty.
        """
        node, rack, gpus = self.hardware.gpus_per_node, self.hardware.nvlink_gpus or 0, self.parallel.gpus
        if rack <= node:
            return node
        even = max(size for size in range(1, rack + 1) if gpus % size == 0)
        return even if 2 * even > rack else rack

    @property
    def of_microbatches(self) -> list[Setup]:
        """The setup with each microbatch alone, where documents are packed; alike ones are the same object."""
        lengths = self.batch.lengths or ()
        each = [replace(self.batch, sequence=sum(documents), lengths=(documents,)) for documents in lengths]
        known = {batch: replace(self, batch=batch) for batch in each}
        return [known[batch] for batch in each]

    @property
    def padded_vocabulary(self) -> int:
        return self.model.padded(self.parallel.tensor)
