"""What `pipesched init` writes: a commented config that works as it stands, and the JSON Schema of all configs."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from pipesched.config.setup_schema import object_schema, setup_schemas
from pipesched.pipeline.costs import TABLED
from pipesched.pipeline.layer_arguments import KEYS, MOST_LAYERS
from pipesched.pipeline.layers import BALANCED, EQUAL, SHARES, SIZES
from pipesched.pipeline.placement import PLACEMENTS
from pipesched.pipeline.problem import LANES
from pipesched.pipeline.step import LEVELS, REDUCES
from pipesched.pipeline.step_arguments import ALL, SHARD_KEYS, SIDE_KEYS, SIDE_SIZES
from pipesched.pipeline.unit_arguments import MOST_ITEMS, SLICE_KEYS
from pipesched.pipeline.units import AUTO, FACTORS, MODES, MOST_SLICES, SHARED, WORK
from pipesched.pipeline.units_of_measure import MEMORY, MICRO, TIME, Dimension
from pipesched.schedulers import options
from pipesched.schedulers.feeding.fed_plan import BEST
from pipesched.schedulers.options import OPTIONS, Option, options_of
from pipesched.schedulers.registry import ALIASES, FAMILIES, family
from pipesched.text import fields
from pipesched.text.fields import Field


def starter() -> str:
    """Return a commented config that works as it stands, and shows every key."""
    return files("pipesched.config").joinpath("starter.yaml").read_text(encoding="utf-8")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a config file, for editors."""
    top = {field.key: _schema(field) for field in fields.FIELDS if "." not in field.key}
    sections = {
        section: {
            **object_schema({key: _schema(fields.BY_KEY[f"{section}.{key}"]) for key in fields.keys_of(section)}),
            "type": ["object", "null"],  # an empty section counts as absent
        }
        for section in fields.SECTIONS
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pipesched config",
        **object_schema({**top, **sections, **setup_schemas()}),
        "anyOf": [{"required": ["devices"]}, {"required": ["model", "hardware", "parallel", "batch"]}],
    }


def _schema(field: Field | Option) -> dict[str, Any]:
    """Return the schema of a value; an empty one counts as absent, except where the field is required."""
    empty = [] if field.key == "devices" else [{"type": "null"}]
    return {"description": field.help, "anyOf": [*_shapes(field), *empty]}


def _algorithms() -> list[dict[str, Any]]:
    """Return the schemas of the key `algorithm`: a name, or one name with its options."""
    families = {name: family(name) for name in (*FAMILIES, *ALIASES)}
    given = {
        name: {**object_schema({key: _schema(OPTIONS[key]) for key in options_of(known)}), "type": ["object", "null"]}
        for name, known in families.items()
    }
    return [{"enum": list(families)}, {**object_schema(given), "minProperties": 1, "maxProperties": 1}]


def _shapes(field: Field | Option) -> list[dict[str, Any]]:
    if field.shape == fields.ALGORITHM:
        return _algorithms()
    number: dict[str, Any] = {"type": "number", "minimum": 0}
    if field.shape in (fields.PER_DEVICE, options.PERIOD):
        number = {"type": "number", "exclusiveMinimum": 0}
    if field.shape == fields.FRACTION:
        number["maximum"] = 1
    dimension = field.dimension if isinstance(field, Field) else None
    if field.shape in (options.PERIOD, options.STARTS):
        dimension = TIME
    value = number if dimension is None else {"anyOf": [number, _measured(dimension)]}
    devices = {"type": "array", "items": {"type": "integer", "minimum": 0}}
    latency, speed = {"anyOf": [number, _measured(TIME)]}, {"type": "number", "minimum": 0.001, "maximum": 1000}
    count = {"type": "integer", "minimum": 1}
    shapes: dict[str, list[dict[str, Any]]] = {
        fields.COUNT: [
            {"type": "integer", "minimum": 1, **({"maximum": MOST_LAYERS} if field.key == "layers" else {})}
        ],
        options.WHOLE: [{"type": "integer", "minimum": 0}],
        options.FLAG: [{"type": "boolean"}],
        options.PERIOD: [value],
        options.GROUPS: [{"enum": [BEST]}, count],
        options.STAGES: [{"enum": [options.FULL]}, count],
        options.STARTS: [{"type": "array", "items": value}],
        fields.TEXT: [{"type": "string"}],
        options.WORD: [{"enum": list(field.names)}] if isinstance(field, Option) else [],
        options.MICROBATCHES: [{"enum": list(field.names)}, devices] if isinstance(field, Option) else [],
        fields.LANES: [{"enum": list(LANES)}],
        fields.PLACEMENT: [{"enum": ["auto", *PLACEMENTS]}, devices],
        fields.LAYOUT: [{"enum": [BEST, BALANCED, EQUAL]}, devices],
        fields.SPEED: [speed, {"type": "array", "items": speed}, {"type": "object", "additionalProperties": speed}],
        fields.LINKS: [{"type": "array", "items": {"type": "array", "items": latency}}, *_groups(latency, devices)],
        fields.PART: [object_schema({key: _of_layer(key, number, is_listed=field.key == "layer") for key in KEYS})],
        fields.SHARE: [{**number, "maximum": 1}],
        fields.MODE: [{"enum": list(MODES)}],
        fields.NUMBER: [value],
        fields.SHARD: _shard(),
        fields.SIDE: [_side(latency)],
        fields.SIZES: [object_schema({key: {"anyOf": [_list_of(number), {"type": "null"}]} for key in FACTORS})],
        fields.SLICES: _slices(latency),
    }
    entry = {"anyOf": [value, _list_of(value)]} if isinstance(field, Field) and field.name in TABLED else value
    return shapes.get(field.shape, [value, _list_of(entry)])


def _shard() -> list[dict[str, Any]]:
    number: dict[str, Any] = {"type": "integer", "minimum": 1}
    ahead = [number, {"enum": [options.FULL, AUTO]}, _list_of(number)]
    shapes = {"level": [{"enum": [*LEVELS]}], "ranks": [number], "ahead": ahead, "reduce": [{"enum": [*REDUCES]}]}
    return [*shapes["level"], object_schema({key: {"anyOf": [*shapes[key], {"type": "null"}]} for key in SHARD_KEYS})]


def _side(time: dict[str, Any]) -> dict[str, Any]:
    place: dict[str, Any] = {"type": "integer", "minimum": 0}
    size = {"anyOf": [{"type": "number", "minimum": 0}, _measured(MEMORY)]}
    devices = {"anyOf": [{"enum": [ALL]}, {**_list_of(place), "minItems": 1, "uniqueItems": True}]}
    shapes: dict[str, dict[str, Any]] = {
        **{key: {"anyOf": [time, _list_of(time)]} for key in ("forward", "backward")},
        **dict.fromkeys(SIDE_SIZES, size),
        **{"name": {"type": "string"}, "into": place, "devices": devices, "p2p": time},
    }
    item = object_schema({key: {"anyOf": [shapes[key], {"type": "null"}]} for key in SIDE_KEYS})
    item["properties"]["forward"] = shapes["forward"]
    return {**_list_of({**item, "required": ["forward"]}, MOST_ITEMS), "minItems": 1}


def _list_of(items: dict[str, Any], most: int | None = None) -> dict[str, Any]:
    return {"type": "array", "items": items, **({} if most is None else {"maxItems": most})}


def _slices(time: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schemas of how microbatches are cut: into a number of slices, or by a mapping."""
    number = {"type": "integer", "minimum": 1, "maximum": MOST_SLICES}
    count: list[dict[str, Any]] = [number, {"enum": [AUTO]}]
    part = _list_of({"type": "number", "exclusiveMinimum": 0, "maximum": 1})
    parts = {"anyOf": [part, _list_of(part)]}
    shapes: dict[str, list[dict[str, Any]]] = {
        "count": count,
        "tokens": [{"enum": [EQUAL, WORK]}, part],
        "attention": [{"type": "number", "minimum": 0, "maximum": 1}],
        "work": [part, _list_of(part), {**object_schema(dict.fromkeys(SHARED, parts)), "required": [*SHARED]}],
        "overhead": [time, {**_list_of(time), "minItems": 2, "maxItems": 2}],
        "most": [number],
    }
    return [*count, object_schema({key: {"anyOf": [*shapes[key], {"type": "null"}]} for key in SLICE_KEYS})]


def _of_layer(key: str, number: dict[str, Any], *, is_listed: bool) -> dict[str, Any]:
    """Return the schema of an entry of a part of a model, which may be a list with one for each layer."""
    shapes = [number] if key in SHARES else [number, _measured(MEMORY if key in SIZES else TIME)]
    if key == "checkpoint":
        shapes = [{**number, "maximum": 1}]
    lists = [_list_of({"anyOf": shapes}, MOST_LAYERS)] if is_listed else []
    return {"anyOf": [*shapes, *lists, {"type": "null"}]}


def _groups(latency: dict[str, Any], devices: dict[str, Any]) -> list[dict[str, Any]]:
    by = {"size": {"type": "integer", "minimum": 1}, "groups": _list_of(devices)}
    return [
        {**object_schema({key: value, "inside": latency, "between": latency}), "required": [key, "inside", "between"]}
        for key, value in by.items()
    ]


def _measured(dimension: Dimension) -> dict[str, Any]:
    """Return the schema of the text of a number with a unit."""
    names = "|".join([*dimension.units, *(MICRO if dimension is TIME else ())])
    return {"type": "string", "pattern": rf"^\s*\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?\s*({names})\s*$"}
