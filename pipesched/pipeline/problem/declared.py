"""Every value of a problem in a config, in the order of files; the keys of `costs` and `memory` stand in their records.

Reader, overrides, JSON Schema, starter, list of keys, sweeps and the options of the command line all read this table.
The keys of a model on GPUs stand in the records of `estimation/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from pipesched.pipeline.layers.layers import BALANCED, BEST, EQUAL, KEYS, MOST_LAYERS
from pipesched.pipeline.plan.step import MESSAGES, SHARD
from pipesched.pipeline.problem.costs import COSTS, MEMORY_KEYS
from pipesched.pipeline.problem.problem import DEVICES, PROBLEM_KEYS
from pipesched.pipeline.problem.shapes import ByKey, Count, Either, Field, LayoutText, ListOf, OneOf, ValueShape
from pipesched.pipeline.problem.units import SIZES, SLICES

SECTIONS = ("costs", "memory", "step")


class Elsewhere(ValueShape):
    """A shape that a higher room knows: options of families, and sections of a training run."""

    form = "a name, or a mapping"


def _layer(*, listed: bool) -> ByKey:
    """Return the costs of a layer: numbers, or where layers differ lists with one for each."""
    fields = {one.name: one for one in (*COSTS.values(), *MEMORY_KEYS.values())}
    numbers = {name: fields[name].number for name in KEYS}
    return ByKey({name: Either(one, ListOf(one, most=MOST_LAYERS)) if listed else one for name, one in numbers.items()})


OF_LAYERS = (
    Field(
        "layer",
        _layer(listed=True),
        "costs of a layer: forward, backward (or its halves, or all three), recompute, overlap, offload, reload,"
        " gather, reduce, optimizer, activation, static, weights, gradients, states, retain, checkpoint; a number, or"
        " a list with one for each",
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
        "mtp",
        _layer(listed=False),
        "what a layer of multi-token prediction costs, m in `layout`, by the keys of `layer`",
        flag=None,
        example="{forward: 1.5, backward: 3}",
    ),
    Field(
        "layout",
        Either(OneOf(BEST, BALANCED, EQUAL), DEVICES, LayoutText(), metavar="NAME|N,N..|TEXT"),
        "of the layers: best (default), balanced, equal, the layers of each stage, or Megatron-LM's text, as Et*2|t*2L;"
        " without layers it cuts the stages",
        example="best",
    ),
)
CHUNKS = Field("chunks", Count(), "V, stages a device, instead of stages", example="1")
ALGORITHM = Field(
    "algorithm",
    Elsewhere(),
    "what `run` takes where it is given no name: a name, or one name with its options, {interleaved: {group_size: 8}}",
    flag=None,
    live="1f1b",
    remark="what `pipesched run` runs; with options: {interleaved: {group_size: 8}}",
)
_BEHIND = {"stages": (CHUNKS,), "placement": (ALGORITHM,), "layers": OF_LAYERS}
_LAST = ("messages", "shard", "clip", "side")
_FIRST = [one for name, one in PROBLEM_KEYS.items() if name not in _LAST]
FIELDS = (
    *(found for one in _FIRST for found in (one, *_BEHIND.get(one.name, ()))),
    *COSTS.values(),
    *MEMORY_KEYS.values(),
    *(PROBLEM_KEYS[name] for name in _LAST),
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
        "whose runs the estimate is like (like), and whether tune looks beyond what was measured (beyond), "
        "and whether what it finds must surely fit (fits)"),
)  # fmt: skip
SETUP_NAMES = tuple(field.key for field in SETUP)
BY_KEY = {field.key: field for field in FIELDS}
BY_NAME = {field.name: field for field in FIELDS}
PARAMETERS = {name: field for name, field in BY_NAME.items() if name != "algorithm"}  # of `make_problem`
NUMERIC = tuple(field for field in FIELDS if field.shape.is_number)
# Mappings that go entry by entry on top of another, and their entries that have options of their own:
MAPPINGS: dict[str, Mapping[str, ValueShape | Field]] = {
    "sizes": SIZES,
    "slices": SLICES,
    "shard": SHARD,
    "messages": MESSAGES,
}
INSIDE = tuple(one for known in MAPPINGS.values() for one in known.values() if isinstance(one, Field))
VARIED = (
    *NUMERIC,
    BY_KEY["shard"],
    BY_KEY["messages"],
    *(SHARD[key] for key in ("ranks", "ahead", "reduce", "gather")),
)  # what a sweep varies
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
