"""The values of a config, with their places: `source_of` a file, `values_of` it, `override`, then `problem_of` them.

A value is a `Given`: what a user gave, and where it stands (`where` None: an override, of Python or an option). Values
are by the parameters of `make_problem`; `put` sets one, and drops what it replaces. Last stand notes on rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.checks import look_up, shown
from pipesched.errors import ConfigError, Given, blame, located
from pipesched.pipeline.layers.layers import PARTS
from pipesched.pipeline.plan.step import EACH, FREE, GRADIENTS, WEIGHTS, Messages, Shard
from pipesched.pipeline.problem import declared
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.costs import HALVES, TABLED
from pipesched.pipeline.problem.declared import BY_NAME, MAPPINGS
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import MOST_DIGITS, OutOfLimits, is_several, plain, rounding_of, to_fraction
from pipesched.pipeline.problem.shapes import Each, Field, Label
from pipesched.pipeline.problem.units import AUTO, Sizes, Slices
from pipesched.schedulers import options as known
from pipesched.schedulers.family import Family
from pipesched.schedulers.options import OPTIONS
from pipesched.schedulers.registry import family

if TYPE_CHECKING:
    from pipesched.text.sections import Section
    from pipesched.text.yaml_reader import Value

NONE: Mapping[str, Any] = MappingProxyType({})


class Algorithm(NamedTuple):
    """The name and options of a family. `locations[option]` says where an option stands: `file:line: key`."""

    name: str
    options: Mapping[str, Any] = NONE
    locations: Mapping[str, str] = NONE

    def overridden(self, options: Mapping[str, Any]) -> Algorithm:
        """Return this algorithm with `options`, which stand in no file, on top of its own."""
        locations = {option: where for option, where in self.locations.items() if option not in options}
        return Algorithm(self.name, {**self.options, **options}, locations)

    def or_named(self, name: str | Callable[..., Any] | None, options: Mapping[str, Any]) -> Algorithm:
        """Return this algorithm with `options` on top, or another that `name` means with these alone."""
        other = self.name if name is None else family(name).name
        return (self if other == self.name else Algorithm(other)).overridden(options)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Let an error in an option of the file, inside the block, say where it stands."""
        try:
            yield
        except ConfigError as error:
            where = self.locations.get(error.key or "")
            if error.where or where is None:
                raise
            raise error.at(where) from None


def read_algorithm(value: Value, file: str) -> Algorithm:
    """Return the algorithm that the key `algorithm` holds. Raises ConfigError with the file and the line."""
    where = f"{file}:{value.line}: algorithm"
    if isinstance(value.data, str):
        return Algorithm(_family(value.data, where).name)
    if not isinstance(value.data, dict) or len(value.data) != 1:
        form = "a name, or one name with its options: {interleaved: {group_size: 8}}"
        names = f"{len(value.data)} names" if isinstance(value.data, dict) else shown(value.plain())
        raise ConfigError(f"{where}: must be {form}, not {names}")
    [(name, options)] = value.data.items()
    chosen = _family(name, f"{file}:{options.line}: algorithm")
    if options.data is None:
        return Algorithm(chosen.name)
    where = f"{file}:{options.line}: algorithm.{name}"
    if not isinstance(options.data, dict):
        raise ConfigError(f"{where}: must hold `option: value` lines, not {shown(options.plain())}")
    given = {key: entry for key, entry in options.data.items() if entry.data is not None}
    locations = {key: f"{file}:{entry.line}: algorithm.{name}.{key}" for key, entry in given.items()}
    shapes = {key: known.OPTIONS[key].shape if key in known.OPTIONS else Label() for key in given}
    asked = Algorithm(chosen.name, {key: shapes[key].in_file(e.plain()) for key, e in given.items()}, locations)
    with asked.located():
        for key, option in asked.options.items():
            known.checked_option(chosen, key, option)
    return asked


def _family(name: str, where: str) -> Family:
    with blame(None, head=f"{where}: "):
        return family(name, loads=False)


READ = (Sizes, Slices, Shard, Messages)  # what these become
TASK = "task"  # the section that makes a config an exercise, which only a verdict on a solution reads
TWO_A_DEVICE = object()  # the built-in default's stages, until the devices are known


class Source(NamedTuple):
    """The text of a config, and what messages call it; or the values that it would hold."""

    text: str
    name: str
    values: Mapping[str, Given] | None = None


Values = dict[str, Given]  # by the parameters of make_problem, `algorithm`, and the names of sections of a setup


def source_of(config: str | Path) -> Source:
    """Return the text of a config: a line break, a brace or `key: value` makes it YAML, else it is a file's name."""
    from pipesched.text.yaml_reader import read_text

    if isinstance(config, str) and ("\n" in config or config.lstrip().startswith("{") or ": " in config):
        return Source(config, "<text>")
    return Source(read_text(Path(config)), str(config))


BUILT_IN: Values = {  # the default: 4 devices with two stages each; stages follow the devices
    name: Given(value, built_in=True)
    for name, value in {"devices": 4, "microbatches": 8, "forward": 5, "backward": 10, "stages": TWO_A_DEVICE}.items()
}


def assumes_halves(values: Mapping[str, Given]) -> bool:
    """Return whether a user gave the backward whole alone, so that each half of it is taken as half."""
    given = {key for key, value in values.items() if not value.built_in}
    parts = [part for key in PARTS if key in values and isinstance(part := values[key].value, Mapping)]
    by_layers = any("backward" in part for part in parts) and not any(HALVES[0] in part for part in parts)
    return by_layers or ("backward" in given and HALVES[0] not in given)


def values_of(source: Source) -> Values:
    """Return the values of a config. Raises ConfigError."""
    from pipesched.text.yaml_reader import parse_yaml

    if source.values is not None:
        return dict(source.values)
    values = read_fields(parse_yaml(source.text, source.name), source.name)
    if "devices" not in values and not values.keys() & declared.SETUP_NAMES:
        form = "a config needs at least `devices: 4`, or `model`, `hardware`, `parallel` and `batch`"
        raise ConfigError(f"`devices` is missing; {form}", "devices", where=source.name)
    return values


def read_fields(root: Any, name: str) -> Values:
    """Return the values that stand in a file, whichever they are. Raises ConfigError for an unknown key."""
    values = {field.name: given for field, given in _fields(root, name)}
    sections = [key for key in declared.SETUP_NAMES if key in root.data and root.data[key].data is not None]
    if sections:
        from pipesched.text.sections import Section

        values |= {
            key: Given(Section(root.data[key], name), f"{name}:{root.data[key].line}: {key}") for key in sections
        }
    return values


def _fields(root: Any, name: str, section: str = "") -> Iterator[tuple[Field, Given]]:
    """Yield each field of the file with its value, and where that stands. Raises ConfigError for an unknown key."""
    if not isinstance(root.data, dict):
        form = f"must hold `key: value` lines, not {shown(root.plain())}"
        if not section:
            raise ConfigError(f"{name}:{root.line}: a config {form}")
        raise ConfigError(form, section, where=f"{name}:{root.line}: {section}")
    for key, value in root.data.items():
        full = f"{section}.{key}" if section else key
        if not section and key in declared.SECTIONS:
            if value.data is not None:
                yield from _fields(value, name, key)
        elif full in declared.BY_KEY:
            if value.data is not None:
                yield declared.BY_KEY[full], _given(value, name, full)
        elif full == "format" and str(value.plain()).startswith("pipesched."):
            raise ConfigError(f"{name} is a document of format {shown(value.plain())}, not a config")
        elif section or key not in (*declared.SETUP_NAMES, TASK):
            raise ConfigError(f"{name}:{value.line}: unknown key {shown(full)}; {_suggestion(key, section)}")


def _given(value: Any, name: str, key: str) -> Given:
    """Return the value of a key, with the places of its entries if it is a mapping, or a list of lists or mappings."""
    entries = value.data if isinstance(value.data, dict) else {}
    if isinstance(value.data, list) and any(isinstance(held.data, (list, dict)) for held in value.data):
        entries = {str(entry): held for entry, held in enumerate(value.data)}
    inside = {entry: f"{name}:{held.line}: {key}" for entry, held in entries.items()}
    if key != "algorithm":
        return Given(declared.BY_KEY[key].shape.in_file(value.plain()), f"{name}:{value.line}: {key}", inside)
    return Given(read_algorithm(value, name), f"{name}:{value.line}: {key}", inside)  # the lines of options are known


def _suggestion(key: str, section: str) -> str:
    """Return what may be meant by an unknown key: the same in another section, or the nearest one here."""
    elsewhere = [field.key for field in declared.FIELDS if field.key.rpartition(".")[2] == key]
    elsewhere += [f"{name}.{key}" for name, inside in declared.MAPPINGS.items() if key in inside]
    if not elsewhere:
        from pipesched.estimation.setup_reader import SECTION_OF

        elsewhere += [SECTION_OF[key]] if key in SECTION_OF else []
    if elsewhere:
        return f"did you mean {elsewhere[0]!r}?"
    known = declared.keys_of(section) if section else declared.top_keys()
    near = declared.nearest_key(key, known)
    return f"did you mean {near!r}?" if near else f"known here are {', '.join(known)}"


def override(values: Values, overrides: Mapping[str, Any]) -> None:
    """Put parameters of make_problem on top of `values`; None stands for the default. Raises ConfigError."""
    given = {name: value for name, value in overrides.items() if value is not None or name == "devices"}
    halves = [name for name in HALVES if name in given]
    if "chunks" in given and "stages" in given and not counts_blocks({**values, **given}):
        raise ConfigError("give either `stages`, or the `chunks` of a device", "chunks")
    if halves and "backward" in given:
        values.update({name: Given(given[name]) for name in ("backward", *halves)})
    fields = dict(declared.PARAMETERS) | {field.name: field for field in declared.SETUP}
    for name in sorted(overrides, key=lambda name: name != "layout"):  # it says what the stages are
        field = look_up(fields, name, "parameter", name)
        if name not in given:
            values.pop(name, None)
        elif name in declared.SETUP_NAMES:  # the built-in default does not stand beside a section of a setup
            from pipesched.text.sections import merged

            for other in [key for key, known in values.items() if known.built_in]:
                del values[other]
            below = values.get(name, Given(None))
            values[name] = Given(merged(below.value, given[name], name), below.where)
        else:
            put(values, field, Given(given[name]))


def put(values: Values, field: Field, given: Given) -> None:
    """Set one value. One way of giving the backward, where not both are given, or the stages replaces the other."""
    dropped = tuple[str, ...]()  # of the built-in default
    if field.name in ("backward", *HALVES):
        has_both = {"backward", *HALVES} <= values.keys()
        for name in () if has_both else HALVES if field.name == "backward" else ("backward",):
            values.pop(name, None)
    elif field.name in ("stages", "chunks") and not counts_blocks(values):
        values.pop("chunks" if field.name == "stages" else "stages", None)
    elif field.name in ("layers", "layer"):  # a default that is one a stage does not stand beside them
        dropped = ("stages", "forward", "backward")
    elif field.name == "sizes" or (
        isinstance(given.value, Sized) and is_table(field, given.value)
    ):  # whose lists say how many microbatches there are
        dropped = ("microbatches",)
    for name in dropped:
        if name in values and values[name].built_in:
            del values[name]
    both = (values[field.name].value, given.value) if field.name in values and field.name in declared.MAPPINGS else ()
    has_entries = any(isinstance(one, Mapping) for one in both) and not any(isinstance(one, READ) for one in both)
    values[field.name] = _on_top(field, values[field.name], given) if has_entries else given


def is_table(field: Field, value: Sized) -> bool:
    """Return whether a value of a field says what each microbatch has, in lists inside of its list."""
    entries: Any = value if is_several(value) else ()
    if field.name == "side":
        items = (item for item in entries if isinstance(item, Mapping))
        return any(is_several(item.get(key)) for item in items for key in ("forward", "backward"))
    return field.name in TABLED and any(map(is_several, entries))


def _on_top(field: Field, below: Given, above: Given) -> Given:
    """Return entries with others on top, which stand in no file; what has no effect beside these is dropped."""
    whole = field.shape.short or ""
    under, over = (one.value if isinstance(one.value, Mapping) else {whole: one.value} for one in (below, above))
    dropped = {*over, *({"work", "attention"} if {"work", "attention"} & {*over} else ())}
    if over.get("count", AUTO) != AUTO:
        dropped.add("most")
    if over.get("level", WEIGHTS) != WEIGHTS:
        dropped |= {"ahead", "gather"} if over["level"] == GRADIENTS else {"ahead", "gather", "reduce"}
    dropped |= {"ahead"} if over.get("gather") == EACH else {"gather"} if "ahead" in over else set()
    if over.get("queue") == FREE:
        dropped.add("order")
    kept = {key: value for key, value in under.items() if key not in dropped}
    return Given({**kept, **over}, None, {key: place for key, place in below.inside.items() if key in kept})


def counts_blocks(values: Mapping[str, Any]) -> bool:
    """Return whether the stages of values count as layers, which are cut into the chunks of devices."""
    return "layout" in values and "layers" not in values and "layer" not in values


def problem_of(values: Mapping[str, Given]) -> Problem:
    """Return the problem of these values. Raises ConfigError that says where the value at fault was given."""
    if values.keys() & declared.SETUP_NAMES:
        from pipesched.config.derived import derived_problem

        return derived_problem(values)[0]
    plain = {name: given.value for name, given in values.items() if name != "algorithm"}
    if plain.get("stages") is TWO_A_DEVICE:
        try:
            count = to_fraction(plain["devices"])
        except ValueError:  # which the problem refuses, as what is not whole
            count = Fraction(1, 2)
        plain["stages"] = 2 * int(count) if count.denominator == 1 else None
    try:
        return make_problem(**plain)
    except ConfigError as error:
        # a list of a file where other stages were asked for?
        field, stages, given = BY_NAME.get(error.key or ""), values.get("stages"), values.get(error.key or "")
        if field is not None and stages is not None and given is not None and error.entry is None:
            is_listed = isinstance(field.shape, Each) and field.shape.per != "device" and isinstance(given.value, list)
            if is_listed and given.where is not None and stages.where is None and not stages.built_in:
                what = f"{error.message}; leave `stages` out to fuse the stages of the config"
                error = ConfigError(what, error.key)
        raise located(error, values) from None


PARTED = ("tokens", "work")  # of slices: parts of a whole, of which all digits count
MEASURES = ("hardware", "training")  # the sections whose numbers may have many digits; those of others are whole


def rounding_note(values: Mapping[str, Given]) -> str | None:
    """Return which number is rounded first, by its place or parameter, and how many more are; None for none."""
    own = [(name, given) for name, given in values.items() if not given.built_in]
    long = [one for one in own if type(one[1].value) is not int or abs(one[1].value) >= 10**MOST_DIGITS]
    found = [place for name, given in long for place in _rounded(name, given)]
    if not found:
        return None
    more = {1: "", 2: "; 1 more number is rounded"}.get(len(found), f"; {len(found) - 1} more numbers are rounded")
    return f"{found[0]}{more}"


def _rounded(name: str, given: Given) -> Iterator[str]:
    """Yield for each number of a value that is rounded where it stands, and what it counts as."""
    if name == "algorithm":
        for key, option in given.value.options.items():
            if key in OPTIONS and OPTIONS[key].shape.rounds:
                yield from _of_numbers(option, given.value.locations.get(key, f"`{key}`"))
    elif name not in BY_NAME:
        yield from _of_section(given.value, name) if name in MEASURES else ()
    elif (field := BY_NAME[name]).shape.rounds:
        key = field.key
        if not isinstance(given.value, Mapping):
            yield from _of_numbers(given.value, given.where or f"`{key}`")
            return
        for entry, value in given.value.items():
            place = given.inside.get(str(entry), given.where)
            called = f"`{key}.{entry}`" if name in MAPPINGS else f"`{key}`.{entry}"
            if name != "slices" or entry not in PARTED:
                yield from _of_numbers(value, f"{place}.{entry}" if place else called)


def _of_numbers(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, (list, tuple)):
        for entry, one in enumerate(value):
            yield from _of_numbers(one, f"{place}[{entry}]")
    elif isinstance(value, Mapping):  # an item of side work
        for name, one in value.items():
            yield from _of_numbers(one, f"{place}.{name}")
    else:
        try:
            counted = rounding_of(value)
        except OutOfLimits:  # which the check of what it is for refuses
            return
        if counted is not None:
            yield f"{place}: more than {MOST_DIGITS} digits, rounded to {shown(plain(counted))}"


def _of_section(section: Section, key: str) -> Iterator[str]:
    """Yield those of a section, and of the file of shares that `training.efficiency` may name."""
    yield from _of_tree(section.value, section.file, key)
    efficiency = section.value.data.get("efficiency") if isinstance(section.value.data, dict) else None
    if key == "training" and efficiency is not None and isinstance(efficiency.data, str):
        from pipesched.estimation.setup_reader import profile_of

        profile = profile_of(section, efficiency)
        yield from _of_tree(profile.value, profile.file, "efficiency")


def _of_tree(value: Value, file: str, key: str) -> Iterator[str]:
    if isinstance(value.data, dict):
        for name, entry in value.data.items():
            yield from _of_tree(entry, file, f"{key}.{name}")
    else:
        yield from _of_numbers(value.plain(), f"{file}:{value.line}: {key}" if value.line else f"`{key}`")
