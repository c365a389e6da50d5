"""The space that is searched: its points, candidates for each field, and the setups and algorithms that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeVar

from pipesched.config.load import FITS
from pipesched.errors import ConfigError
from pipesched.estimation.derived import budget_of, memory_with, with_budget
from pipesched.estimation.hardware import BF16, LOW, GpuModel, precisions_of
from pipesched.estimation.items import GB
from pipesched.estimation.memory import CONTEXT, FRAGMENTATION
from pipesched.estimation.model import ModelShape, divisors, items_of
from pipesched.estimation.setup import FULL, NONE, SELECTIVE, SIZES, Parallel, Setup, TokenBatch, TrainingSetup
from pipesched.estimation.trust.evidence import evidence_base
from pipesched.pipeline.quantities import to_fraction
from pipesched.pipeline.step import LEVELS

T = TypeVar("T")
FIELDS = (*(f"parallel.{way}" for way in SIZES), "batch.micro", "training.recompute")
OF_SHARDS = ("training.shard", "parallel.shard_ranks")  # where a level is asked for
OF_PRECISION = "training.precision"  # where several are asked for
LEAST_BUDGET = Fraction(1, 1000)  # GB: no model trains in less
SURE, LIKELY = FITS
NODE = "node"  # the GPUs of a node as ranks that divide parameters
MOST_CHUNKS, MOST_MICRO = 8, 8


class Layout(NamedTuple):
    """One value for each field. `recompute` is none, selective, full, or so many layers of each stage.

    `shard` is None where gathers and reductions are no part of the schedule, `shard_ranks` None for all that there are.
    `precision` is None where it is not searched.
    """

    tensor: int
    pipeline: int
    chunks: int
    context: int
    expert: int
    expert_tensor: int
    micro: int
    recompute: str | int
    shard: str | None = None
    shard_ranks: int | None = None
    precision: str | None = None

    @property
    def parallel(self) -> dict[str, int]:
        """The ways of parallelism, by their keys."""
        return {key: getattr(self, key) for key in SIZES}

    @property
    def values(self) -> list[Any]:
        """The values of its fields, without the last ones where it has none of these."""
        if self.precision is not None:
            return [*self]
        return [*self[: len(FIELDS) + len(OF_SHARDS) * (self.shard is not None)]]

    @property
    def in_one_chunk(self) -> Layout:
        """The same with one stage a device, which has the same weights on each."""
        return self._replace(chunks=1)

    @property
    def recompute_value(self) -> Any:
        """Recompute as a config gives it."""
        return {FULL: self.recompute} if isinstance(self.recompute, int) else self.recompute

    def __str__(self) -> str:
        ways = [f"{key} {size}" for key, size in self.parallel.items() if size > 1 or key in ("tensor", "pipeline")]
        more = [f"micro {self.micro}"] if self.micro > 1 else []
        if self.precision is not None:
            more.append(self.precision)
        if self.recompute != "none":
            more.append(f"recompute {self.recompute}" + (" layers" if isinstance(self.recompute, int) else ""))
        if self.shard is not None:
            more.append(f"shard {self.shard}" + (f" over {self.shard_ranks} ranks" if self.shard_ranks else ""))
        return ", ".join([*ways, *more])


def first_of_each(found: Iterable[T], layout: Callable[[T], Layout]) -> list[T]:
    """Return the first of what was found for each layout, whatever its number of chunks."""
    first: dict[Layout, T] = {}
    for one in found:
        first.setdefault(layout(one).in_one_chunk, one)
    return [*first.values()]


class SpacePoint(NamedTuple):
    """A layout and the algorithm that schedules it."""

    layout: Layout
    algorithm: str

    @property
    def key(self) -> str:
        """A text that no other point of any space has."""
        return f"{'/'.join(map(str, self.layout.values))}/{self.algorithm}"


@dataclass(frozen=True)
class Space:
    """What is the same for all points, and the candidates of each field and the algorithms that differ.

    `data` are the data-parallel ranks where they are given. `sequence` is None where sequence parallelism goes with
    tensor parallelism. `given` are parameters of make_problem that count instead of what is derived, among them the
    `budget`, which is here as well where all devices have the same. `sections` are those of the config, as it gives
    them. `only` is the trainer that must take each schedule, if there is one. `beyond`: also points outside what was
    measured are searched. `beside` are the GB that side work holds on each device. `like` is the source whose published
    runs count as one's own. `fits`: whether the best must fit surely, or is only likely to. `notes` say what of the
    config counts in no point.
    """

    model: ModelShape
    hardware: GpuModel
    gpus: int
    sequence: bool | None
    tokens: int
    size: int
    training: TrainingSetup
    candidates: Mapping[str, tuple[Any, ...]]
    algorithms: tuple[str, ...]
    given: Mapping[str, Any]
    name: str = ""
    data: int | None = None
    sections: Mapping[str, Any] = field(default_factory=dict)
    budget: Fraction | None = None
    beside: Fraction = Fraction(0)
    only: str | None = None
    beyond: bool = False
    like: str | None = None
    fits: str = SURE
    notes: tuple[str, ...] = ()

    @property
    def replaces(self) -> bool:
        """Whether numbers are given of which bounds know nothing: any but side work and one budget for all."""
        return bool(set(self.given) - {"side", *(["budget"] if self.budget is not None else [])})

    @property
    def is_low(self) -> bool:
        """Whether some of its points are in 8 or 4 bits."""
        return not {*LOW}.isdisjoint(self.candidates.get(OF_PRECISION, (self.training.precision,)))

    @property
    def is_mixed(self) -> bool:
        """Whether some of its points are in 8 or 4 bits, and some in 16."""
        return self.is_low and not {*LOW}.issuperset(self.candidates.get(OF_PRECISION, ()))

    @property
    def capacity(self) -> Fraction:
        """The GB that a GPU may hold."""
        return to_fraction(self.hardware.memory) if self.budget is None else memory_with(self.budget) / GB

    @property
    def points(self) -> int:
        """The number of points: the full product."""
        return prod(map(len, self.candidates.values())) * len(self.algorithms)

    @property
    def digest(self) -> str:
        """A text that another space does not have."""
        others = ("name", "sections", "only", "like", "fits")
        said = repr([getattr(self, key) for key in self.__dataclass_fields__ if key not in others])
        return sha256(said.encode()).hexdigest()[:16]

    def layouts(self) -> Iterator[Layout]:
        """Yield every combination of candidates."""
        return map(self._layout, product(*self.candidates.values()))

    def _layout(self, values: tuple[Any, ...]) -> Layout:
        """Return a layout; as many ranks as a node has beside tensor ranks are 0 where these do not divide it."""
        named = {field.partition(".")[2]: one for field, one in zip(self.candidates, values, strict=True)}
        layout = Layout(**named)
        if named.get("shard_ranks") != NODE:
            return layout
        ranks, rest = divmod(self.hardware.gpus_per_node, layout.tensor)
        return layout._replace(shard_ranks=0 if rest else ranks)

    @property
    def surely(self) -> Space:
        """The same space with a budget that holds what surely fits: so much is left if all is as large as it may be."""
        usable = to_fraction(self.hardware.memory) * GB - CONTEXT
        most = usable / (to_fraction(evidence_base().memory.high) + FRAGMENTATION) / GB
        return replace(self, budget=most if self.budget is None else min(most, self.budget))

    def bounded(self, setup: Setup) -> Setup:
        """Return a setup for which bounds hold: the budget less side work, and one stage a device."""
        budget = self.budget
        if self.beside:
            budget = max((budget_of(setup) if budget is None else budget) - self.beside, LEAST_BUDGET)
        return replace(with_budget(setup, budget), parallel=replace(setup.parallel, chunks=1))

    def setup(self, layout: Layout) -> Setup:
        """Return the setup of a layout. Raises ConfigError where its sizes do not divide."""
        sequence = layout.tensor > 1 if self.sequence is None else self.sequence
        again = layout.recompute
        recompute, layers = (again, None) if isinstance(again, str) else (FULL, again)
        precision = layout.precision or self.training.precision
        training = replace(
            self.training, precision=precision, recompute=recompute, full_layers=layers, shard=layout.shard
        )
        parallel = Parallel(self.gpus, **layout.parallel, sequence=sequence, shard_ranks=layout.shard_ranks)
        if self.data not in (None, parallel.data):
            raise ConfigError(f"is {self.data}; this layout has {parallel.data} data-parallel ranks", "parallel.data")
        batch = TokenBatch(self.tokens, layout.micro, self.size)
        return Setup(self.model, self.hardware, parallel, batch, training, self.name)


def given_on(given: Mapping[str, Any], devices: int) -> Mapping[str, Any]:
    """Return what is given of layouts on so many devices: a single one sends no messages."""
    return given if devices > 1 else {key: value for key, value in given.items() if key != "messages"}


def automatic(field: str, model: ModelShape, hardware: GpuModel, gpus: int, tokens: int) -> tuple[Any, ...]:
    """Return the candidates of a field that is searched without a list."""
    node, experts = hardware.gpus_per_node, model.experts
    count, width = (1, 1) if experts is None else (experts.count, experts.width)
    found: dict[str, tuple[Any, ...]] = {
        "parallel.tensor": tuple(n for n in divisors(node) if model.heads % n == 0 and model.ffn % n == 0),
        "parallel.pipeline": tuple(n for n in divisors(gpus) if n <= items_of(model)),
        "parallel.chunks": tuple(range(1, MOST_CHUNKS + 1)),
        "parallel.context": tuple(n for n in divisors(gpus) if tokens % n == 0),
        "parallel.expert": divisors(count),
        "parallel.expert_tensor": tuple(n for n in divisors(node) if width % n == 0),
        "batch.micro": tuple(2**power for power in range(MOST_MICRO.bit_length())),
        "training.recompute": (NONE, SELECTIVE, FULL),
        "training.shard": LEVELS,
        OF_PRECISION: (BF16, *(name for name in LOW if name in precisions_of(hardware))),
        "parallel.shard_ranks": (None, NODE),
    }
    return found[field]
