"""Every value of a problem in a config, in the order of files; the keys of `costs` and `memory` stand in their records.

Reader, overrides, JSON Schema, starter, list of keys, sweeps and the options of the command line all read this table.
The keys of a model on GPUs stand in the records of `estimation/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from pipesched.pipeline.costs import BACKWARD, COSTS
from pipesched.pipeline.layer_arguments import KEYS, MOST_LAYERS
from pipesched.pipeline.layers import BALANCED, BEST, EQUAL
from pipesched.pipeline.memory import MEMORY_KEYS
from pipesched.pipeline.placement import PLACEMENTS
from pipesched.pipeline.problem import LANES
from pipesched.pipeline.shapes import (
    ByKey,
    ByName,
    Count,
    Either,
    Field,
    Flag,
    Label,
    ListOf,
    Number,
    OneOf,
    ValueShape,
)
from pipesched.pipeline.step import LEVELS
from pipesched.pipeline.step_arguments import SHARD, SIDE
from pipesched.pipeline.unit_arguments import MOST_ITEMS, SIZES, SLICE_COUNT, SLICES
from pipesched.pipeline.units import AUTO, MODES
from pipesched.pipeline.units_of_measure import TIME

SECTIONS = ("costs", "memory", "step")
_LATENCY, _DEVICES = Number(TIME), ListOf(Count(0))
_SPEED = Number(least=0.001, most=1000)


class Elsewhere(ValueShape):
    """A shape that a higher room knows: options of families, and sections of a training run."""

    form = "a name, or a mapping"


def _layer(*, listed: bool) -> ByKey:
    """Return the costs of a layer: numbers, or where layers differ lists with one for each."""
    fields = {**COSTS, **MEMORY_KEYS, "backward": BACKWARD}
    numbers = {name: fields[name].number for name in KEYS}
    return ByKey({name: Either(one, ListOf(one, most=MOST_LAYERS)) if listed else one for name, one in numbers.items()})


def _groups(name: str, shape: ValueShape) -> ByKey:
    return ByKey({name: shape, "inside": _LATENCY, "between": _LATENCY}, (name, "inside", "between"))


FIELDS = (
    Field("name", Label(), "a title for charts and tables", flag=None, absent="", live="my-model"),
    Field("devices", Count(), "P, the pipeline ranks", live="4"),
    Field(
        "stages",
        Count(),
        "S, the contiguous parts of the model; default: one a device (two without a config)",
        live="8",
    ),
    Field("chunks", Count(), "V, stages a device, instead of stages", example="1"),
    Field("microbatches", Count(), "M; default as many as lists of one a microbatch have, else 2P", live="8"),
    Field(
        "sizes",
        ByKey(SIZES),
        "factors of each microbatch, lists of M numbers: work (of the times of F, B, I, W and R), activation (of its"
        " memory, and of O and L), message (of p2p and links); default all 1",
        flag=None,
        example="{work: [1, 1, 2, 1, 1, 2, 1, 1]}",
        remark="microbatches that differ: factors of each; also activation and message",
    ),
    Field(
        "slices",
        Either(SLICE_COUNT, OneOf(AUTO), ByKey(SLICES, short="count"), metavar="N|auto", is_number=True),
        "into how many parts each microbatch is cut along its sequence, or auto; or a mapping of count, tokens,"
        " attention, work, overhead and most",
        absent=1,
        example="4",
        remark="parts of each microbatch along its sequence, or {count: 4, attention: 0.5, overhead: 0}",
    ),
    Field(
        "mode", OneOf(*MODES), "train (default), or forward: forward passes alone", absent="train", example="forward"
    ),
    Field(
        "placement",
        Either(OneOf("auto", *PLACEMENTS), _DEVICES, metavar="NAME|D,D.."),
        "auto (the algorithm's own), linear, loop, v, wave, bidirectional, or the device of each stage",
        absent="auto",
        noun="Placement",
        live="auto",
        remark="the algorithm's own, or linear, loop, v, wave, bidirectional, [0, 1, 2, 3, 0, 1, 2, 3]",
    ),
    Field(
        "algorithm",
        Elsewhere(),
        "what `run` takes where it is given no name: a name, or one name with its options, {interleaved: {group_size:"
        " 8}}",
        flag=None,
        live="1f1b",
        remark="what `pipesched run` runs; with options: {interleaved: {group_size: 8}}",
    ),
    Field(
        "time_unit",
        Label(),
        "a label for times, for instance ms; beside it values may be 250us",
        flag=None,
        absent="",
        live="ms",
    ),
    Field(
        "lanes",
        OneOf(*LANES),
        "transfer lanes: each device its own, or a pair of devices shares both",
        flag=None,
        absent="device",
        example="device",
    ),
    Field(
        "layers",
        Count(most=MOST_LAYERS),
        "of the model; cut into the stages, whose costs then follow from `layer`; default: as many as its lists have",
        example="32",
        remark="may be left out beside lists, of layers that differ: layer: {forward: [1.25, 1.5, ..]}",
    ),
    Field(
        "layer",
        _layer(listed=True),
        "costs of a layer: forward, backward (or its halves), recompute, overlap, offload, reload, gather, reduce,"
        " optimizer, activation, static, weights, gradients, states, retain, checkpoint; a number, or a list with one"
        " for each",
        flag=None,
        example="{forward: 1.25, backward: 2.5, activation: 0.125, static: 0}",
    ),
    Field(
        "first",
        _layer(listed=False),
        "what the first stage has beside its layers (the embedding), by the keys of `layer`",
        flag=None,
        example="{static: 0}",
    ),
    Field(
        "last",
        _layer(listed=False),
        "what the last stage has beside its layers (the head, the loss), by the keys of `layer`",
        flag=None,
        example="{forward: 2, backward: 4}",
    ),
    Field(
        "layout",
        Either(OneOf(BEST, BALANCED, EQUAL), _DEVICES, metavar="NAME|N,N.."),
        "of the layers: best (default), balanced, equal, or the layers of each stage; without layers it cuts the"
        " stages",
        example="best",
    ),
    Field(
        "speed",
        Either(_SPEED, ListOf(_SPEED), ByName(_SPEED), metavar="X[,X..]", is_number=True),
        "what each device divides the costs of operations by: one each, or by device, {2: 0.8}; default 1",
        example="{2: 0.8}",
    ),
    Field(
        "links",
        Either(
            ListOf(ListOf(_LATENCY)), _groups("size", Count()), _groups("groups", ListOf(_DEVICES)), is_number=False
        ),
        "latency from device to device, beside that of the boundary: {size: 4, inside: 0.05, between: 0.4} for groups"
        " of devices in a row, `groups` for others, or a list for each device",
        flag=None,
        example="{size: 2, inside: 0, between: 0.5}",
    ),
    COSTS["forward"],
    BACKWARD,
    *(one for name, one in COSTS.items() if name != "forward"),
    *MEMORY_KEYS.values(),
    Field(
        "shard",
        Either(ByKey(SHARD, short="level"), OneOf(*LEVELS)),
        "what data-parallel ranks divide: none, optimizer (its states; default beside costs.gather), gradients too or"
        " weights too; or a mapping of level, ranks, ahead and reduce",
        flag=None,
        noun="Shard",
        example="{level: weights, ranks: 8, ahead: 3, reduce: last}",
    ),
    Field(
        "step.clip",
        Flag(),
        "whether each optimizer waits for the gradients of all stages, to clip their norm",
        example="true",
    ),
    Field(
        "side",
        ListOf(ByKey(SIDE, ("forward",)), 1, MOST_ITEMS),
        "work beside the pipeline for each microbatch, a list of mappings: name, forward, backward (times, or lists"
        " of one a microbatch), into (a stage), devices (all, or a list), p2p, activation, output, static",
        flag=None,
        noun="Sequence[SideItem]",
        example="[{name: vision, forward: 3, backward: 6, into: 0, devices: all}]",
    ),
)
SETUP = (  # sections that describe a training run, from which a problem is derived
    Field("model", Elsewhere(),
        "what to train: a preset, the path of a Hugging Face config.json, or a mapping of its keys"),
    Field("hardware", Elsewhere(), "the GPUs: a preset, or a mapping of tflops, memory, bandwidth and links"),
    Field("parallel", Elsewhere(),
        "how many GPUs, and over how many ranks each way of parallelism spreads the model"),
    Field("batch", Elsewhere(), "tokens of a sequence, sequences of a microbatch, sequences of a step"),
    Field("training", Elsewhere(),
        "numbers, recompute, layout, and the shares of the GPU's numbers that training reaches"),
    Field("trust", Elsewhere(),
        "whose runs the estimate is like (like), and whether tune looks beyond what was measured (beyond)"),
)  # fmt: skip
SETUP_NAMES = tuple(field.key for field in SETUP)
BY_KEY = {field.key: field for field in FIELDS}
BY_NAME = {field.name: field for field in FIELDS}
PARAMETERS = {name: field for name, field in BY_NAME.items() if name != "algorithm"}  # of `make_problem`
NUMERIC = tuple(field for field in FIELDS if field.shape.is_number)
MAPPINGS: dict[str, Mapping[str, ValueShape | Field]] = {
    "sizes": SIZES,
    "slices": SLICES,
    "shard": SHARD,
}  # which go entry by entry on top of another
INSIDE = tuple(
    one for known in MAPPINGS.values() for one in known.values() if isinstance(one, Field)
)  # entries of mappings that have options of their own
VARIED = (*NUMERIC, BY_KEY["shard"], SHARD["ranks"], SHARD["ahead"], SHARD["reduce"])  # what a sweep varies
OTHERS = {  # keys of other programs, each with ours
    "tp": "tensor", "pp": "pipeline", "vp": "chunks", "vpp": "chunks", "cp": "context", "ep": "expert", "dp": "data",
    "etp": "expert_tensor", "sp": "sequence", "mbs": "micro", "gbs": "global", "seq": "sequence", "world_size": "gpus",
}  # fmt: skip


def nearest_key(key: str, known: Sequence[str]) -> str | None:
    """Return the key, of those that are known, for which another one was meant, if any looks like it."""
    ours = OTHERS.get(key.lower())
    near = get_close_matches(key, known, n=1) if ours is None else [ours] * (ours in known)
    return near[0] if near else None


def words_of(key: str) -> str:
    """Return the name of a value for people, by its key."""
    if key.startswith("speed["):
        return f"speed of device {key[len('speed[') : -1]}"
    known = next((one for one in (*FIELDS, *INSIDE) if one.key == key), None)
    return (known and known.called) or key.rpartition(".")[2].replace("_", " ")


def top_keys() -> list[str]:
    """Return the keys that may stand at the top level of a file."""
    return [*keys_of(""), *SETUP_NAMES]


def keys_of(section: str) -> list[str]:
    """Return the keys of a problem that may stand in a section of the file ("" is the top level)."""
    if not section:
        return [field.key for field in FIELDS if "." not in field.key] + list(SECTIONS)
    return [field.key.partition(".")[2] for field in FIELDS if field.key.startswith(f"{section}.")]
