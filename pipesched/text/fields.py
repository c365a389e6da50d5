"""Every value of a problem in a config, in one table: its key, its shape and its meaning.

The reader, the overrides, the JSON Schema, sweeps and the options of the command line all read this table. The keys of
a model on GPUs stand in `estimation/setup_reader.py`, and what they mean in `config/setup_schema.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from pipesched.pipeline.units_of_measure import MEMORY, TIME, Dimension

COUNT = "count"  # the shapes of values, from here on
PER_STAGE = "per stage"
PER_BOUNDARY = "per boundary"
PER_DEVICE = "per device"
RATIO = "ratio per stage"
FRACTION = "fraction"
PLACEMENT = "placement"
LANES = "lanes"
TEXT = "text"
ALGORITHM = "algorithm"
PART = "costs of a layer"
LAYOUT = "layout"
SECTION = "section"
SPEED = "speed of devices"
LINKS = "links between devices"
SIZES = "sizes of microbatches"
SLICES = "slices of microbatches"
MODE = "mode"
SHARE = "one part of a whole"
NUMBER = "one number"
FLAG = "flag"
SHARD = "parts of data-parallel ranks"
SIDE = "side work"
WORDS = {  # names of fields for people, where they are not the last part of the key
    "costs.backward_input": "input gradient",
    "costs.backward_weight": "weight gradient",
    "costs.overlap": "overlapped pair",
    "costs.p2p": "p2p latency",
    "costs.gather": "gather of weights",
    "costs.reduce": "reduction of gradients",
    "costs.tied": "sum of tied gradients",
    "memory.activation": "activation memory",
    "memory.retain": "retained part of activations",
    "memory.checkpoint": "kept part of activations",
    "memory.kv": "keys and values",
    "memory.static": "static memory",
    "memory.states": "optimizer states",
    "memory.budget": "memory budget",
    "shard.ranks": "ranks of a shard",
    "shard.ahead": "stages ahead",
    "shard.reduce": "rule of reductions",
}


class Field(NamedTuple):
    """A value of a config: its dotted key in the file, its shape and its meaning.

    `argument` is the parameter of make_problem, where it is not the last part of the key.
    """

    key: str
    shape: str
    help: str
    argument: str | None = None

    @property
    def name(self) -> str:
        """The parameter of make_problem that takes it."""
        return self.argument or self.key.rpartition(".")[2]

    @property
    def takes_numbers(self) -> bool:
        """Whether its value is a number, or several."""
        return self.shape not in NO_NUMBERS

    @property
    def dimension(self) -> Dimension | None:
        """What its numbers measure, None for counts, parts and what is no number."""
        if self.shape not in (PER_STAGE, PER_BOUNDARY, PER_DEVICE, NUMBER):
            return None
        return TIME if self.key.startswith("costs.") else MEMORY


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
    return WORDS.get(key, key.rpartition(".")[2].replace("_", " "))


FIELDS = (
    Field("name", TEXT, "a title for charts and tables"),
    Field("devices", COUNT, "P, the pipeline ranks"),
    Field("stages", COUNT, "S, the contiguous parts of the model; default: one a device (two without a config)"),
    Field("chunks", COUNT, "V, stages a device, instead of stages"),
    Field("microbatches", COUNT, "M; default as many as lists of one a microbatch have, else 2P"),
    Field("sizes", SIZES,
        "factors of each microbatch, lists of M numbers: work (of the times of F, B, I, W and R), activation (of its"
        " memory, and of O and L), message (of p2p and links); default all 1"),
    Field("slices", SLICES,
        "into how many parts each microbatch is cut along its sequence, or auto; or a mapping of count, tokens,"
        " attention, work, overhead and most"),
    Field("mode", MODE, "train (default), or forward: forward passes alone"),
    Field("placement", PLACEMENT,
        "auto (the algorithm's own), linear, loop, v, wave, bidirectional, or the device of each stage"),
    Field("algorithm", ALGORITHM,
        "what `run` takes where it is given no name: a name, or one name with its options, {interleaved: {group_size:"
        " 8}}"),
    Field("time_unit", TEXT, "a label for times, for instance ms; beside it values may be 250us"),
    Field("lanes", LANES, "transfer lanes: each device its own, or a pair of devices shares both"),
    Field("layers", COUNT,
        "of the model; cut into the stages, whose costs then follow from `layer`; default: as many as its lists have"),
    Field("layer", PART,
        "costs of a layer: forward, backward (or its halves), recompute, overlap, offload, reload, gather, reduce,"
        " optimizer, activation, static, weights, gradients, states, retain, checkpoint; a number, or a list with one"
        " for each"),
    Field("first", PART, "what the first stage has beside its layers (the embedding), by the keys of `layer`"),
    Field("last", PART, "what the last stage has beside its layers (the head, the loss), by the keys of `layer`"),
    Field("layout", LAYOUT,
        "of the layers: balanced (default), equal, or the layers of each stage; without layers it cuts the stages"),
    Field("speed", SPEED,
        "what each device divides the costs of operations by: one each, or by device, {2: 0.8}; default 1"),
    Field("links", LINKS,
        "latency from device to device, beside that of the boundary: {size: 4, inside: 0.05, between: 0.4} for groups"
        " of devices in a row, `groups` for others, or a list for each device"),
    Field("costs.forward", PER_STAGE,
        "time of a forward; default 1 (5 without a config); an entry may list one a microbatch, as that of any cost"),
    Field("costs.backward", PER_STAGE, "time of a full backward; default twice forward (10 without a config)"),
    Field("costs.backward_input", PER_STAGE, "its half for the input gradient"),
    Field("costs.backward_weight", PER_STAGE, "its half for the weight gradient"),
    Field("costs.recompute", PER_STAGE, "time to run a forward again; default forward"),
    Field("costs.overlap", PER_STAGE, "time of an overlapped pair F&B; default: the sum of its parts"),
    Field("costs.p2p", PER_BOUNDARY,
        "latency of an edge between two devices, or one a boundary between stages or layers; default 0"),
    Field("costs.offload", PER_STAGE, "time to offload one activation"),
    Field("costs.reload", PER_STAGE, "time to load it back; default offload"),
    Field("costs.gather", PER_STAGE, "time to bring the weights of a stage together, over the network"),
    Field("costs.reduce", PER_STAGE, "time to add up the gradients of a stage among data-parallel ranks"),
    Field("costs.optimizer", PER_STAGE, "time of the optimizer's update of a stage, on its device"),
    Field("costs.tied", NUMBER, "time in which first and last stage add up gradients that they share: one number"),
    Field("memory.unit", TEXT,
        "a label for memory, for instance GB; default microbatch; values may have units of their own, 500MB"),
    Field("memory.activation", PER_STAGE, "of one stage and microbatch; default P/S"),
    Field("memory.retain", RATIO, "held from the end of I to the end of W, in activations; default 1"),
    Field("memory.checkpoint", FRACTION, "fraction that a recomputed microbatch keeps; default 0"),
    Field("memory.kv", SHARE,
        "keys and values as a part of the activation: slices hold their gradients, forwards alone them; default 0"),
    Field("memory.static", PER_STAGE, "weights, gradients, optimizer, per stage; default 0"),
    Field("memory.weights", PER_STAGE, "weights of a stage, whole; default 0"),
    Field("memory.gradients", PER_STAGE, "gradients of a stage, whole; default 0"),
    Field("memory.states", PER_STAGE, "states of the optimizer of a stage, whole; default 0"),
    Field("memory.budget", PER_DEVICE,
        "limit of activations and static memory; absent: none, or with `model` what the GPU leaves"),
    Field("shard", SHARD,
        "what data-parallel ranks divide: none, optimizer (its states; default beside costs.gather), gradients too or"
        " weights too; or a mapping of level, ranks, ahead and reduce"),
    Field("step.clip", FLAG, "whether each optimizer waits for the gradients of all stages, to clip their norm"),
    Field("side", SIDE,
        "work beside the pipeline for each microbatch, a list of mappings: name, forward, backward (times, or lists"
        " of one a microbatch), into (a stage), devices (all, or a list), p2p, activation, output, static"),
)  # fmt: skip

SETUP = (  # sections that describe a training run, from which a problem is derived
    Field("model", SECTION,
        "what to train: a preset, the path of a Hugging Face config.json, or a mapping of its keys"),
    Field("hardware", SECTION, "the GPUs: a preset, or a mapping of tflops, memory, bandwidth and links"),
    Field("parallel", SECTION, "how many GPUs, and over how many ranks each way of parallelism spreads the model"),
    Field("batch", SECTION, "tokens of a sequence, sequences of a microbatch, sequences of a step"),
    Field("training", SECTION, "numbers, recompute, layout, and the shares of the GPU's numbers that training reaches"),
    Field("trust", SECTION,
        "whose runs the estimate is like (like), and whether tune looks beyond what was measured (beyond)"),
)  # fmt: skip
SETUP_NAMES = tuple(field.key for field in SETUP)
BY_KEY = {field.key: field for field in FIELDS}
BY_NAME = {field.name: field for field in FIELDS}
NO_NUMBERS = (PLACEMENT, LANES, TEXT, ALGORITHM, PART, LAYOUT, LINKS, SIZES, MODE, FLAG, SHARD, SIDE)
NUMERIC = tuple(field for field in FIELDS if field.takes_numbers)
VARIED = (  # what a sweep varies
    *NUMERIC,
    BY_KEY["shard"],
    Field("shard.ranks", COUNT, "among how many ranks each part is divided; default 1", "shard"),
    Field("shard.ahead", COUNT, "with weights divided, how many stages of a device are whole at once", "shard"),
    Field("shard.reduce", SHARD, "whether gradients are reduced last, once a stage, or after each microbatch", "shard"),
)
SECTIONS = ("costs", "memory", "step")


def top_keys() -> list[str]:
    """Return the keys that may stand at the top level of a file."""
    return [*keys_of(""), *SETUP_NAMES]


def keys_of(section: str) -> list[str]:
    """Return the keys of a problem that may stand in a section of the file ("" is the top level)."""
    if not section:
        return [field.key for field in FIELDS if "." not in field.key] + list(SECTIONS)
    return [field.key.partition(".")[2] for field in FIELDS if field.key.startswith(f"{section}.")]
