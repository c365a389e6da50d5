"""What `pipesched init` writes: a commented config that works as it stands, and the JSON Schema of all configs."""

from __future__ import annotations

from typing import Any

from pipesched.config.setup_schema import setup_schemas
from pipesched.pipeline.layer_arguments import KEYS
from pipesched.pipeline.layers import BALANCED, EQUAL, SIZES
from pipesched.pipeline.placement import PLACEMENTS
from pipesched.pipeline.problem import LANES as LANE_KINDS
from pipesched.pipeline.units_of_measure import MEMORY, MICRO, TIME, Dimension
from pipesched.schedulers.options import (
    FLAG,
    FULL,
    OPTIONS,
    PERIOD,
    STAGES,
    STARTS,
    WHOLE,
    WORD,
    Option,
    options_of,
)
from pipesched.schedulers.registry import ALIASES, FAMILIES, family
from pipesched.text.fields import (
    ALGORITHM,
    COUNT,
    FIELDS,
    FRACTION,
    LANES,
    LAYOUT,
    PART,
    PER_DEVICE,
    PLACEMENT,
    SECTIONS,
    TEXT,
    Field,
)

STARTER = """\
# A problem for pipesched. Try it:
#   pipesched run -c THIS_FILE
#   pipesched compare naive 1f1b interleaved -c THIS_FILE
# Only `devices` is required; lines that are commented out show what else there is.
# With `layers`, the costs stand in `layer`, and pipesched cuts the layers into stages: see the end.

name: my-model
devices: 4                     # pipeline ranks, P
stages: 8                      # contiguous parts of the model, S; two a device here
microbatches: 8                # M
placement: auto                # the algorithm's own, or linear, loop, v, wave, bidirectional, [0, 1, 2, 3, 0, 1, 2, 3]
algorithm: 1f1b                # what `pipesched run` runs; with options: {interleaved: {group_size: 8}}
time_unit: ms                  # a label; values may have units of their own, for instance 250us

costs:
  forward: 5                   # a number, or a list with one for each stage
  backward: 10                 # or its two halves:
  # backward_input: 5
  # backward_weight: 5
  p2p: 0                       # latency between two devices; a number, or one for each boundary between stages
  # recompute: 5               # default: forward
  # overlap: 15                # an overlapped forward and backward; default: the sum of both
  # offload: 5                 # one way, for each activation
  # reload: 5                  # default: offload

memory:
  unit: microbatch             # a label: microbatch, GB, ...; with GB values may have units of their own, 500MB
  activation: 0.5              # of one stage and microbatch; default P/S
  # retain: 1                  # held from the end of the input gradient to that of the weight gradient, in activations
  # checkpoint: 0.1            # fraction that a recomputed microbatch keeps
  # static: 0                  # weights, gradients, optimizer, for each stage
  # budget: 4                  # limit of a device; a number, or one for each device

# Instead of stages, and of costs one a stage, the model by its layers:
# layers: 32
# chunks: 1                    # stages a device, V
# layer: {forward: 1.25, backward: 2.5, activation: 0.125, static: 0}
# first: {static: 0}           # what the first stage has beside its layers: the embedding
# last: {forward: 2, backward: 4}  # what the last stage has beside them: the head and the loss
# layout: balanced             # or equal, or the layers of each stage: [8, 8, 9, 7]
"""


def starter() -> str:
    """Return a commented config that works as it stands, and shows every key."""
    return STARTER


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a config file, for editors."""
    top = {field.key: _schema(field) for field in FIELDS if "." not in field.key}
    sections = {
        section: {
            **_object({field.key.partition(".")[2]: _schema(field) for field in _of(section)}),
            "type": ["object", "null"],  # an empty section counts as absent
        }
        for section in SECTIONS
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pipesched config",
        **_object({**top, **sections, **setup_schemas()}),
        "anyOf": [{"required": ["devices"]}, {"required": ["model", "hardware", "parallel", "batch"]}],
    }


def _of(section: str) -> list[Field]:
    return [field for field in FIELDS if field.key.startswith(f"{section}.")]


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _schema(field: Field | Option) -> dict[str, Any]:
    """Return the schema of a value; an empty one counts as absent, except where the field is required."""
    empty = [] if field.key == "devices" else [{"type": "null"}]
    return {"description": field.help, "anyOf": [*_shapes(field), *empty]}


def _algorithms() -> list[dict[str, Any]]:
    """Return the schemas of the key `algorithm`: a name, or one name with its options."""
    families = {name: family(name) for name in (*FAMILIES, *ALIASES)}
    options = {
        name: {**_object({key: _schema(OPTIONS[key]) for key in options_of(known)}), "type": ["object", "null"]}
        for name, known in families.items()
    }
    return [{"enum": list(families)}, {**_object(options), "minProperties": 1, "maxProperties": 1}]


def _shapes(field: Field | Option) -> list[dict[str, Any]]:
    if field.shape == ALGORITHM:
        return _algorithms()
    number: dict[str, Any] = {"type": "number", "minimum": 0}
    if field.shape in (PER_DEVICE, PERIOD):
        number = {"type": "number", "exclusiveMinimum": 0}
    if field.shape == FRACTION:
        number["maximum"] = 1
    dimension = TIME if field.shape in (PERIOD, STARTS) else field.dimension if isinstance(field, Field) else None
    value = number if dimension is None else {"anyOf": [number, _measured(dimension)]}
    devices = {"type": "array", "items": {"type": "integer", "minimum": 0}}
    shapes: dict[str, list[dict[str, Any]]] = {
        COUNT: [{"type": "integer", "minimum": 1}],
        WHOLE: [{"type": "integer", "minimum": 0}],
        FLAG: [{"type": "boolean"}],
        PERIOD: [value],
        STAGES: [{"enum": [FULL]}, {"type": "integer", "minimum": 1}],
        STARTS: [{"type": "array", "items": value}],
        TEXT: [{"type": "string"}],
        WORD: [{"enum": list(field.names)}] if isinstance(field, Option) else [],
        LANES: [{"enum": list(LANE_KINDS)}],
        PLACEMENT: [{"enum": ["auto", *PLACEMENTS]}, devices],
        LAYOUT: [{"enum": [BALANCED, EQUAL]}, devices],
        PART: [_object({key: {"anyOf": [number, _measured(_of_part(key)), {"type": "null"}]} for key in KEYS})],
    }
    return shapes.get(field.shape, [value, {"type": "array", "items": value}])


def _of_part(key: str) -> Dimension:
    """Return what a number of a layer measures."""
    return MEMORY if key in SIZES else TIME


def _measured(dimension: Dimension) -> dict[str, Any]:
    """Return the schema of the text of a number with a unit."""
    names = "|".join([*dimension.units, *(MICRO if dimension is TIME else ())])
    return {"type": "string", "pattern": rf"^\s*\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?\s*({names})\s*$"}
