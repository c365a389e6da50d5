"""What a value of a config may be: how it reads in a file, what its JSON Schema is, how a command line spells it.

A key is declared once, as a `Field` (by `declare`, where it is one of a record): reader, overrides, JSON Schema,
starter, options, sweeps, list of keys follow. A `ValueShape` is one of the classes below it: `Number`, `Count`,
or one made of others, as `ListOf` and `Either` are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipesched.pipeline.problem.quantities import MICRO, TIME, Dimension, has_unit, to_fraction

Schema = dict[str, Any]
NULL: Schema = {"type": "null"}
AUTO = "auto"  # what a search, or a run, is to find


class TextForNumber:
    """A text of a file where a number is due. It is no number, whatever it spells, as in the JSON Schema."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return repr(self.text)


def only_numbers(plain: Any) -> Any:
    """Return a value of a file, or a list or mapping of them, in which no text counts as the number that it spells.

    A number with a unit (250us) stays the text that it is.
    """
    if isinstance(plain, dict):
        return {key: only_numbers(entry) for key, entry in plain.items()}
    if isinstance(plain, list):
        return [only_numbers(entry) for entry in plain]
    return TextForNumber(plain) if isinstance(plain, str) and not has_unit(plain) else plain


def words_or_numbers(plain: Any) -> Any:
    """Return a value whose texts are words: none is read as a number."""
    if isinstance(plain, dict):
        return {key: words_or_numbers(entry) for key, entry in plain.items()}
    try:
        is_word = isinstance(plain, str) and to_fraction(plain) is None
    except ValueError:
        is_word = True
    return plain if is_word else only_numbers(plain)


class ValueShape:
    """What a value may be.

    An option calls it `metavar` ("": it has none), people `form`, a type checker `hint`. `is_number`: a number, or
    several; `rounds`: it holds numbers of which nine digits count. A plain value stands for the entry `short` of a
    mapping. `words` may stand for it. Of the JSON Schemas `schemas` one holds for a value.
    """

    metavar = ""
    form = ""
    hint = "Any"
    is_number = False
    rounds = False
    short: str | None = None
    words: tuple[str, ...] = ()
    schemas: Sequence[Schema] = ()

    @property
    def one(self) -> Schema:
        return self.schemas[0] if len(self.schemas) == 1 else {"anyOf": [*self.schemas]}

    @property
    def or_null(self) -> Schema:
        return {"anyOf": [*self.schemas, NULL]}

    def in_file(self, plain: Any) -> Any:
        """Return a value of a file, in which no text counts as the number that it spells."""
        return only_numbers(plain) if self.is_number else plain


class Number(ValueShape):
    """A number from 0 on (`above`: above it), at most `most`; of a dimension it may have a unit."""

    metavar, hint = "X", "Number"
    is_number = rounds = True

    def __init__(
        self, dimension: Dimension | None = None, *, least: float = 0, above: bool = False, most: int | None = None
    ) -> None:
        self.dimension, self.above, self.most = dimension, above, most
        number = {"type": "number", "exclusiveMinimum" if above else "minimum": least}
        self.schemas = [number if most is None else {**number, "maximum": most}]
        noun = "a number" if dimension is None else dimension.noun
        self.form = f"{noun} {'above' if above else 'from'} {least}" + ("" if most is None else f" to {most}")
        if dimension is not None:
            units = "|".join([*dimension.units, *(MICRO if dimension is TIME else ())])
            text = rf"^\s*\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?\s*({units})\s*$"
            self.schemas.append({"type": "string", "pattern": text})


class Count(ValueShape):
    """A whole number of at least `least`."""

    metavar, hint = "N", "Number"
    is_number = True

    def __init__(self, least: int = 1, most: int | None = None) -> None:
        self.least = least
        self.schemas = [{"type": "integer", "minimum": least, **({} if most is None else {"maximum": most})}]
        self.form = f"a whole number from {least}" + ("" if most is None else f" to {most:,}")


class Label(ValueShape):
    """A text."""

    metavar, form, hint = "TEXT", "a text", "str"
    schemas = ({"type": "string"},)


class Flag(ValueShape):
    """True or false."""

    form, hint = "true or false", "bool"
    schemas = ({"type": "boolean"},)


class LayoutText(ValueShape):
    """A layout in Megatron-LM's letters."""

    metavar, hint, form = "TEXT", "str", "Megatron-LM's text"
    schemas = ({"type": "string", "pattern": r"^[EtmL|()*0-9,\s]+$"},)


class OneOf(ValueShape):
    """One of some names."""

    metavar, hint = "NAME", "str"

    def __init__(self, *names: str) -> None:
        self.words = names
        self.form = ", ".join(names)
        self.schemas = [{"enum": [*names]}]


class ListOf(ValueShape):
    """A list, of `least` to `most` entries, all of which differ where they are `unique`."""

    def __init__(
        self, shape: ValueShape, least: int = 0, most: int | None = None, *, unique: bool = False, metavar: str = ""
    ) -> None:
        self.shape, self.metavar = shape, metavar
        self.is_number, self.rounds = shape.is_number, shape.rounds
        limits = {"minItems": least or None, "maxItems": most, "uniqueItems": unique or None}
        given = {key: limit for key, limit in limits.items() if limit is not None}
        self.schemas = [{"type": "array", "items": shape.one, **given}]
        self.form, self.hint = f"a list, each {shape.form}", f"Sequence[{shape.hint}]"

    def in_file(self, plain: Any) -> Any:
        return [self.shape.in_file(one) for one in plain] if isinstance(plain, list) else super().in_file(plain)


class Each(ValueShape):
    """One number for all, or a list of one for each stage, device or boundary: `per` says of what.

    `rows`: an entry may list one for each microbatch.
    """

    metavar = "X[,X..]"
    is_number = rounds = True

    def __init__(self, number: Number, per: str = "stage", *, rows: bool = False) -> None:
        self.number, self.per, self.rows = number, per, rows
        self.dimension = number.dimension
        self.form = f"{number.form}, or a list of one a {per}" + (" and microbatch" if rows else "")
        self.hint = "Number | Sequence[Number | Sequence[Number]]" if rows else "Number | Sequence[Number]"
        self.schemas = [number.one, *ListOf(Either(number, ListOf(number)) if rows else number).schemas]


class Either(ValueShape):
    """One of several shapes, which kinds of data tell apart."""

    def __init__(self, *shapes: ValueShape, metavar: str = "", is_number: bool | None = None) -> None:
        self.shapes, self.metavar = shapes, metavar
        self.is_number = all(one.is_number for one in shapes) if is_number is None else is_number
        self.rounds = any(one.rounds for one in shapes)
        self.short = next((one.short for one in shapes if one.short), None)
        self.words = tuple(word for one in shapes for word in one.words)
        self.form = "; or ".join(one.form for one in shapes)
        self.hint = " | ".join(dict.fromkeys(one.hint for one in shapes))
        self.schemas = [found for one in shapes for found in one.schemas]

    def in_file(self, plain: Any) -> Any:
        for one in self.shapes:
            if isinstance(one, ByKey) and isinstance(plain, dict):
                return one.in_file(plain)
        if isinstance(plain, str) and not any(isinstance(one, (Number, Count)) for one in self.shapes):
            return plain
        return words_or_numbers(plain)


class Searched(Either):
    """A value for which a search takes several, or looks itself. `several` is what an option calls these."""

    def __init__(self, *shapes: ValueShape, metavar: str = "", several: str = "") -> None:
        super().__init__(*shapes, metavar=metavar or shapes[0].metavar)
        self.several = several or f"{self.metavar}[,{self.metavar}..]|{AUTO}"
        self.schemas = [*self.schemas, *ListOf(Either(*shapes)).schemas, {"const": AUTO}]


class ByKey(ValueShape):
    """A mapping of known keys, each a shape or a field; each may be absent but for those that are `required`.

    `short` is the one that a plain value stands for.
    """

    def __init__(
        self, entries: Mapping[str, ValueShape | Field], required: Sequence[str] = (), short: str | None = None
    ) -> None:
        fields = {key: one for key, one in entries.items() if isinstance(one, Field)}
        self.entries = {key: one.shape if isinstance(one, Field) else one for key, one in entries.items()}
        self.short = short
        self.rounds = any(one.rounds for one in self.entries.values())
        self.form, self.hint = f"a mapping of {', '.join(entries)}", "Mapping[str, Any]"
        known = {key: one.one if key in required else one.or_null for key, one in self.entries.items()}
        known = {key: fields[key].described(one) if key in fields else one for key, one in known.items()}
        self.schemas = [object_schema(known) | ({"required": [*required]} if required else {})]

    def in_file(self, plain: Any) -> Any:
        if not isinstance(plain, dict):
            return words_or_numbers(plain)
        known = self.entries
        return {key: known[key].in_file(one) if key in known else words_or_numbers(one) for key, one in plain.items()}


class ByName(ValueShape):
    """A mapping from numbers, such as those of devices."""

    is_number = rounds = True

    def __init__(self, shape: ValueShape) -> None:
        self.form, self.hint = f"a mapping from numbers, each {shape.form}", f"Mapping[int, {shape.hint}]"
        self.schemas = [{"type": "object", "additionalProperties": shape.one}]


def object_schema(properties: dict[str, Schema]) -> Schema:
    """Return the schema of a mapping with these keys and no others."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


class Field(NamedTuple):
    """A value of a config: its dotted key in the file, its shape and its meaning."""

    key: str
    shape: ValueShape
    help: str
    argument: str | None = None  # the parameter of Python, where it is not the last part of the key
    flag: str | None = ""  # the name of its option, where that is another; None: it has none
    called: str = ""  # its name for people
    example: str = ""  # its value in the starter, as a comment
    remark: str = ""  # what the starter says behind it; else `help`
    live: str = ""  # its value in the starter
    searched: str = ""  # its default in a search, or all that it means there
    absent: Any = None  # its default in Python
    once: bool = False  # no microbatch changes it
    optional: bool = False  # a record may lack it
    noun: str = ""  # a type that it may be in Python too

    @property
    def name(self) -> str:
        """The parameter of Python that takes it."""
        return self.argument or self.key.rpartition(".")[2]

    @property
    def of_stages(self) -> bool:
        """Whether each stage has one, which its layers add up to."""
        return isinstance(self.shape, Each) and self.shape.per == "stage"

    @property
    def number(self) -> Number:
        """What each of its numbers may be."""
        one = self.shape.number if isinstance(self.shape, Each) else self.shape
        assert isinstance(one, Number)
        return one

    @property
    def dimension(self) -> Dimension | None:
        """What its numbers measure, None for counts, parts and what is no number."""
        return self.shape.dimension if isinstance(self.shape, (Each, Number)) else None

    @property
    def schema(self) -> Schema:
        """Its JSON Schema: an empty value counts as absent."""
        return self.described(self.shape.or_null)

    def described(self, schema: Schema) -> Schema:
        return {"description": self.help, **schema}


DECLARED = "declared"  # in the metadata of a field of a record


def declare(shape: ValueShape, text: str, *default: Any, **more: Any) -> Any:
    """Return a field of a record that is a key of a config, whose meaning `text` says; `more` are fields of Field."""
    given = {"default": default[0]} if default else {}
    given |= {"compare": more.pop("compare")} if "compare" in more else {}
    return dataclasses.field(metadata={DECLARED: Field(more.pop("key", ""), shape, text, **more)}, **given)


def declared(record: Any, section: str = "") -> dict[str, Field]:
    """Return the keys that the fields of a record are, in a section, by their names."""
    found = dict[str, Field]()
    for one in dataclasses.fields(record):
        if DECLARED in one.metadata:
            said: Field = one.metadata[DECLARED]
            key = said.key or f"{section}{'.' * bool(section)}{one.name}"
            absent = one.default if said.absent is None and isinstance(one.default, (str, int)) else said.absent
            found[one.name] = said._replace(key=key, absent=absent, optional=one.default is None)
    return found
