"""The `Space` that is searched, as `read_space` reads it: a config whose fields have a value, a list, or `auto`.

Its `layouts` yields a `Parallelism` for each combination, of which `setup` makes the run; a point adds an algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeVar

from pipesched.checks import divisors, require_name, require_sequence, require_whole, shown
from pipesched.config.derived import FITS, INSTEAD, read_trust, require_place
from pipesched.config.estimate import require_training
from pipesched.config.load import algorithm_of, load_values
from pipesched.config.values import Values
from pipesched.errors import ConfigError, blame, located as located_value
from pipesched.estimation.derived import budget_of, derive, memory_with, side_static, with_budget
from pipesched.estimation.hardware import BF16, LOW, GpuModel, precisions_of, require_precision
from pipesched.estimation.items import GB
from pipesched.estimation.memory import CONTEXT, FRAGMENTATION
from pipesched.estimation.model import ModelShape, items_of
from pipesched.estimation.model_reader import MODELS, preset_names
from pipesched.estimation.setup import (
    FULL,
    NONE,
    RECOMPUTES,
    SELECTIVE,
    SHARD_RANKS,
    SIZES,
    Parallel,
    Setup,
    TokenBatch,
    TrainingSetup,
)
from pipesched.estimation.setup_reader import EMPTY, OF_SETUP, read_unsized, require_agreement, section_entries
from pipesched.estimation.trust.evidence import evidence_base
from pipesched.pipeline.plan.step import LEVELS, OF_FILE, read_messages
from pipesched.pipeline.problem.costs import STATIC_PARTS
from pipesched.pipeline.problem.quantities import MEMORY, Unit, exact_number, is_several, to_fraction
from pipesched.pipeline.problem.shapes import AUTO, only_numbers
from pipesched.pipeline.problem.units import TRAIN
from pipesched.results.trainers import families_of
from pipesched.schedulers.registry import FAMILIES, family
from pipesched.text.sections import Section, located
from pipesched.text.yaml_reader import Value

T = TypeVar("T")
FIELDS = (*(f"parallel.{way}" for way in SIZES), "batch.micro", "training.recompute")
OF_SHARDS = ("training.shard", "parallel.shard_ranks")  # where a level is asked for
OF_PRECISION = "training.precision"  # where several are asked for
LEAST_BUDGET = Fraction(1, 1000)  # GB: no model trains in less
SURE, LIKELY = FITS
NODE = "node"  # the GPUs of a node as ranks that divide parameters
MOST_CHUNKS, MOST_MICRO = 8, 8


class Parallelism(NamedTuple):
    """A layout: one value for each field that a space has."""

    tensor: int
    pipeline: int
    chunks: int
    context: int
    expert: int
    expert_tensor: int
    micro: int
    recompute: str | int  # a word (none, selective, full), or so many layers of each stage
    shard: str | None = None  # None where gathers and reductions are no part of the schedule
    shard_ranks: int | None = None  # None for all that there are
    precision: str | None = None  # None where it is not searched

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


def first_of_each(found: Iterable[T], layout: Callable[[T], Parallelism]) -> list[T]:
    """Return the first of what was found for each layout, whatever its number of chunks."""
    first: dict[Parallelism, T] = {}
    for one in found:
        first.setdefault(layout(one)._replace(chunks=1), one)  # with the same weights on each device
    return [*first.values()]


class SpacePoint(NamedTuple):
    """A layout and the algorithm that schedules it."""

    layout: Parallelism
    algorithm: str

    @property
    def key(self) -> str:
        """A text that no other point of any space has."""
        return f"{'/'.join(map(str, self.layout.values))}/{self.algorithm}"


@dataclass(frozen=True)
class Space:
    """What is the same for all points, and the candidates of each field and the algorithms that differ."""

    model: ModelShape
    hardware: GpuModel
    gpus: int
    sequence: bool | None  # None where sequence parallelism goes with tensor parallelism
    tokens: int
    size: int
    training: TrainingSetup
    candidates: Mapping[str, tuple[Any, ...]]
    algorithms: tuple[str, ...]
    given: Mapping[str, Any]  # parameters of make_problem that count instead of what is derived
    name: str = ""
    data: int | None = None  # the data-parallel ranks, where they are given
    sections: Mapping[str, Any] = field(default_factory=dict)  # those of the config, as it gives them
    budget: Fraction | None = None  # of `given`, where all devices have the same
    beside: Fraction = Fraction(0)  # GB that side work holds on each device
    only: str | None = None  # the trainer that must take each schedule
    beyond: bool = False  # also points outside what was measured are searched
    like: str | None = None  # the source whose published runs count as one's own
    fits: str = SURE  # whether the best must fit surely, or is only likely to
    notes: tuple[str, ...] = ()  # what of the config counts in no point

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

    def layouts(self) -> Iterator[Parallelism]:
        """Yield every combination; ranks of a node beside tensor ranks are 0 where these do not divide its GPUs."""
        names = [field.partition(".")[2] for field in self.candidates]
        for values in product(*self.candidates.values()):
            named = dict(zip(names, values, strict=True))
            if named.get("shard_ranks") == NODE:
                ranks, rest = divmod(self.hardware.gpus_per_node, named["tensor"])
                named["shard_ranks"] = 0 if rest else ranks
            yield Parallelism(**named)

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

    def setup(self, layout: Parallelism) -> Setup:
        """Return the setup of a layout. Raises ConfigError where its sizes do not divide."""
        sequence, again = layout.tensor > 1 if self.sequence is None else self.sequence, layout.recompute
        recompute, layers = (again, None) if isinstance(again, str) else (FULL, again)
        training = replace(self.training, recompute=recompute, full_layers=layers, shard=layout.shard)
        if layout.precision is not None:
            training = replace(training, precision=layout.precision)
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


ABSENT = {  # other fields are searched
    "batch.micro": 1, "training.recompute": NONE, "parallel.expert_tensor": 1, SHARD_RANKS: None,
}  # fmt: skip
UNLIKE = ("speed", "links")  # of devices, which no point of a space has
SECTIONS = ("model", "hardware", "parallel", "batch", "training")


def read_space(
    config: Any,
    overrides: Mapping[str, Any],
    algorithms: Sequence[Any] | None = None,
    only: str | None = None,
    *,
    beyond: bool = False,
) -> Space:
    """Return the space of a config with overrides on top.

    `algorithms` are those to try; None: all that need no options. With `only` they are those that this trainer has.
    `beyond`: it reaches beyond what was measured, whatever the config says.

    Raises ConfigError that says where the value at fault stands.
    """
    values = load_values(config, overrides)
    if "model" in values:  # without one nothing is derived, which is said first
        require_place(values)
    for name in UNLIKE:
        if name in values and values[name].value is not None:
            what = "is not searched over: tune takes GPUs of one speed, linked as `hardware` says"
            raise located_value(ConfigError(what, name), values)
    sections = {name: values[name].value for name in SECTIONS if name in values}
    trust = read_trust(values["trust"].value if "trust" in values else None)
    try:
        space = _space(values, sections, algorithms, only)
        asked, notes = algorithm_of(values), []
        if asked is not None and asked.options:
            said = "counts in no point: algorithms run with their usual options"
            notes.append(f"{', '.join(asked.options)} of `algorithm` {said}")
        if "side" in values and values["side"].value is not None:
            said = "counts in each point as it is given: of a microbatch on a device, however large both are"
            notes.append(f"`side` {said}")
        space = replace(space, beyond=beyond or trust.beyond, like=trust.like, fits=trust.fits, notes=tuple(notes))
        _require_use(space)
    except ConfigError as error:
        others = {key: value for key, value in values.items() if key not in SECTIONS}
        raise located(located_value(error, others), sections) from None
    return space


def _require_use(space: Space) -> None:
    """Raise ConfigError for a value beside the sections that no layout of the space can have."""
    messages = read_messages(space.given.get("messages"))
    if messages is not None and messages.order == OF_FILE:
        raise ConfigError("file: no point of a space is the plan of a file", "messages", entry="order")
    refused, tried = None, set[tuple[int, int]]()
    for layout in space.layouts() if set(space.given) - {"budget"} else ():
        size = layout.pipeline, layout.chunks
        if size in tried:
            continue
        try:
            setup = space.setup(layout)
        except ConfigError:
            continue
        tried.add(size)
        try:
            derive(setup, space.given)
        except ConfigError as error:
            if refused is None and error.key in space.given:
                refused = ConfigError(error.message, error.key, entry=error.entry)
        else:
            return
    if refused is not None:
        raise refused


def _space(
    values: Values, sections: Mapping[str, Section], algorithms: Sequence[Any] | None, only: str | None
) -> Space:
    """Return a space: candidates for each field of FIELDS and `beside`, one value of all else, and algorithms."""
    precision = _given(sections, OF_PRECISION)
    beside = (*_of_shards(sections), *[OF_PRECISION] * (precision == AUTO or isinstance(precision, list)))
    fixed = dict(sections)  # without the fields that are searched, which may hold lists
    for name in fixed.keys() & OF_SETUP:
        if isinstance(data := fixed[name].value.data, dict):
            rest = {key: value for key, value in data.items() if f"{name}.{key}" not in (*FIELDS, *beside)}
            fixed[name] = fixed[name]._replace(value=Value(rest, fixed[name].value.line))
    unsized = read_unsized(fixed)
    model, hardware = unsized["model"], unsized["hardware"]
    candidates = {
        field: _candidates(field, _given(sections, field, ABSENT.get(field, AUTO)))
        or automatic(field, model, hardware, unsized["gpus"], unsized["tokens"])
        for field in (*FIELDS, *beside)
    }
    for precision in candidates.get(OF_PRECISION, (unsized["training"].precision,)):
        require_precision(hardware, precision)
    is_sliced, known = "slices" in values and values["slices"].value is not None, map(family, FAMILIES)
    every = [one.name for one in known if not one.required and (is_sliced or not one.same_without_slices)]
    tried = every if algorithms is None else _named(algorithms)
    left = tried if only is None else families_of(only, tried)
    if not left:
        raise ConfigError(f"{only} can run none of these: {', '.join(tried)}", "only")
    others = (*SECTIONS, *INSTEAD, "algorithm", "name", "trust")
    given = {key: one.value for key, one in values.items() if key not in others and one.value is not None}
    require_training(given.get("mode", TRAIN))
    for key in ("static", *STATIC_PARTS):
        if key in given:
            raise ConfigError("is what each layout makes of it; leave it out", key)
    budget = None if is_several(given.get("budget")) else given.get("budget")  # of all devices
    if budget is not None:
        budget = to_fraction(exact_number("budget", budget, Unit(MEMORY, "GB"), above=True))
    return Space(
        **unsized,
        candidates=candidates,
        algorithms=tuple(dict.fromkeys(left)),
        given=given,
        name=str(values["name"].value) if "name" in values else "",
        sections={name: _as_given(name, section) for name, section in sections.items()},
        budget=budget,
        beside=side_static(given),
        only=only,
    )


def _of_shards(sections: Mapping[str, Section]) -> tuple[str, ...]:
    """Return OF_SHARDS where a level is asked for, else no fields. Raises ConfigError."""
    level, ranks = OF_SHARDS
    given = _given(sections, level)
    if given is None:
        if _given(sections, ranks) is not None:
            raise ConfigError("has no effect without `training.shard`, which says what these ranks divide", ranks)
        return ()
    levels = _candidates(level, given) or LEVELS
    require_agreement(section_entries(sections["training"].value, "training"), levels)
    return OF_SHARDS


def _as_given(name: str, section: Section) -> Any:
    """Return a section as the config has it, but for names of files, which then hold wherever it is read from."""
    plain = section.value.plain()
    if name == "model" and isinstance(plain, str) and plain not in preset_names(MODELS):
        path = section.folder(section.value) / plain
        return str(path.resolve()) if path.exists() else plain
    if name == "training" and isinstance(plain, dict) and isinstance(plain.get("efficiency"), str):
        path = section.folder(section.value.data["efficiency"]) / plain["efficiency"]
        return {**plain, "efficiency": str(path.resolve())}
    return plain


def _named(algorithms: Sequence[Any]) -> list[str]:
    """Return the names of algorithms that are given. Raises ConfigError for one with required options."""
    if not require_sequence(algorithms, "algorithms"):
        raise ConfigError("names none; `solve` goes on from the schedules of others", "algorithms")
    with blame("algorithms"):
        chosen = [family(name) for name in algorithms]
    for one in chosen:
        if one.required:
            needed = " and ".join(f"`{key}`" for key in one.required)
            raise ConfigError(f"{one.name} needs {needed}, which a space does not have", "algorithms")
    return [one.name for one in chosen]


def _given(sections: Mapping[str, Section], field: str, absent: Any = None) -> Any:
    name, _, key = field.partition(".")
    data = sections.get(name, EMPTY).value.data
    value = data.get(key) if isinstance(data, dict) else None
    plain = None if value is None else value.plain()
    return absent if plain is None else plain


def _candidates(field: str, plain: Any) -> tuple[Any, ...]:
    """Return the candidates that stand in a config, none for `auto`. Raises ConfigError about the field."""
    if plain == AUTO:
        return ()
    if plain is None:
        return (None,)
    listed = plain if isinstance(plain, list) else [plain]
    if not listed:
        raise ConfigError("lists no candidates; give some, or auto", field)
    section, _, key = field.partition(".")
    found, asked = list[Any](), OF_SETUP[section][key]
    for value in listed:
        if key == "recompute" and isinstance(value, Mapping):
            if list(value) != [FULL]:
                raise ConfigError(f"must be {', '.join(RECOMPUTES)} or {{full: N}}, not {shown(value)}", field)
            found.append(require_whole(value[FULL], field, least=1))
        elif asked.shape.words:
            found.append(require_name(asked.shape.words, value, asked.called or key, field))
        else:
            found.append(require_whole(only_numbers(value), field, least=1))
    return tuple(dict.fromkeys(found))
