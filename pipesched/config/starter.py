"""What `pipesched init` writes: a commented config (`starter`; of a model `setup_starter`), and the JSON Schema.

All follow from the declarations of keys, as the list of all keys does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from itertools import product
from math import gcd
from types import MappingProxyType

from pipesched.checks import require_whole
from pipesched.config.derived import TrustSection
from pipesched.estimation.derived import derive
from pipesched.estimation.hardware_reader import KEYS as HARDWARE
from pipesched.estimation.model import BIASES, MLPS, NORMS, POSITIONS
from pipesched.estimation.model_reader import read_model_section
from pipesched.estimation.parameters import parameters
from pipesched.estimation.setup import BATCH, PARALLEL, TRAINING, Setup
from pipesched.estimation.setup_reader import OF_SETUP, setup_of
from pipesched.pipeline.problem.declared import BY_KEY, FIELDS, INSIDE, SECTIONS, SETUP, keys_of
from pipesched.pipeline.problem.shapes import ByKey, Field, Flag, Label, Number, OneOf, Schema, declared, object_schema
from pipesched.schedulers.options import OPTIONS, options_of
from pipesched.schedulers.registry import ALIASES, FAMILIES, family
from pipesched.text.sections import merged
from pipesched.text.writer import spelled

COLUMN, WIDEST = 31, 140  # of remarks
HEAD = """\
# A problem for pipesched. Try it:
#   pipesched run -c THIS_FILE
#   pipesched compare naive 1f1b interleaved -c THIS_FILE
# Only `devices` is required; lines that are commented out show what else there is.
# With `layers`, the costs stand in `layer`, and pipesched cuts the layers into stages: see the end.
"""
APART = {  # keys of the starter that stand behind the others, each group below a remark
    "What data-parallel ranks divide: none, optimizer, gradients or weights (ZeRO 0, 1, 2, 3); and work beside the"
    " pipeline:": ("shard", "step.clip", "side"),
    "Instead of stages, and of costs one a stage, the model by its layers:": (
        "layers", "chunks", "layer", "first", "last", "mtp", "layout",
    ),
}  # fmt: skip
SETUP_HEAD = """\
# A training run for pipesched: {title}. Try it:
#   pipesched estimate -c THIS_FILE
#   pipesched run -c THIS_FILE
#   pipesched compare 1f1b interleaved zb-h1 -c THIS_FILE
# Costs and memory are derived, in ms and GB; keys of costs and memory would replace them.{warning}

name: {name}
model: {model}
hardware: {hardware}
"""


def starter() -> str:
    """Return a commented config that works as it stands, and shows every key."""
    behind = [key for keys in APART.values() for key in keys]
    first = [field for field in FIELDS if "." not in field.key and field.key not in behind]
    parts = [HEAD, *_lines("", first)]
    for section in ("costs", "memory"):
        parts += [f"\n{section}:", *_lines("  ", [BY_KEY[f"{section}.{key}"] for key in keys_of(section)])]
    for remark, keys in APART.items():
        parts += [f"\n# {remark}", *_lines("", [BY_KEY[key] for key in keys])]
    return "\n".join(parts) + "\n"


def _lines(indent: str, fields: Iterable[Field], values: Mapping[str, object] = MappingProxyType({})) -> Iterator[str]:
    """Yield the line of each key: its value or its example, as a comment unless it is live, and a remark."""
    for field in fields:
        if field.live or field.example:
            *sections, key = field.key.split(".")
            text = f"{key}: {values.get(field.key, field.live or field.example)}"
            if sections and not indent:
                text = f"{sections[0]}: {{{text}}}"
            line = f"{indent}{'' if field.live else '# '}{text}"
            said = f"{line:<{COLUMN}}{'' if len(line) < COLUMN else '  '}# {field.remark or field.help}"
            yield said if field.remark or len(said) < WIDEST else line


def json_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of a config file, for editors."""
    top = {field.key: field.schema for field in FIELDS if "." not in field.key and field.key != "algorithm"}
    top["devices"] = BY_KEY["devices"].described(BY_KEY["devices"].shape.one)
    families = {name: family(name) for name in (*FAMILIES, *ALIASES)}
    given = {
        name: {**object_schema({key: OPTIONS[key].schema for key in options_of(known)}), "type": ["object", "null"]}
        for name, known in families.items()
    }
    one_name = {**object_schema(given), "minProperties": 1, "maxProperties": 1}
    algorithms = [{"enum": list(families)}, one_name, {"type": "null"}]
    top["algorithm"] = {"description": BY_KEY["algorithm"].help, "anyOf": algorithms}
    sections = {
        section: {
            **object_schema({key: BY_KEY[f"{section}.{key}"].schema for key in keys_of(section)}),
            "type": ["object", "null"],  # an empty section counts as absent
        }
        for section in SECTIONS
    }
    setup = {field.key: {"description": field.help, "anyOf": [*_setup(field.key), {"type": "null"}]} for field in SETUP}
    found = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pipesched config",
        **object_schema({**top, **sections, **setup}),
        "anyOf": [{"required": ["devices"]}, {"required": ["model", "hardware", "parallel", "batch"]}],
    }
    return deepcopy(found)  # parts are those of the declarations


def _setup(section: str) -> list[Schema]:
    """Return the schemas of what a section of a training run may be."""
    if section == "model":  # a mapping of Hugging Face's keys: those that it knows, and any other
        own = {"mlp": MLPS, "norm": NORMS, "bias": BIASES, "positions": POSITIONS}
        properties = {key: OneOf(*names).or_null for key, names in own.items()}
        properties |= {"tie_word_embeddings": Flag().or_null, "dropout": Number(most=1).or_null}
        properties["model_type"] = Label().or_null  # known or not: `architectures` may name one that is
        return [*Label().schemas, {"type": "object", "properties": properties}]
    if section == "hardware":
        return [HARDWARE["preset"].shape.one, *ByKey(HARDWARE).schemas]
    if section == "trust":
        return [*ByKey(declared(TrustSection, "trust")).schemas]
    [found] = ByKey(OF_SETUP[section]).schemas
    if section == "batch":
        return [{**found, "anyOf": [{"required": ["sequence", "global"]}, {"required": ["lengths"]}]}]
    return [{**found, "required": ["gpus"]} if section == "parallel" else found]


def known_keys() -> list[Field]:
    """Return every key of a config, in the order of files, those of entries with an option of their own too."""
    entries: dict[str, list[Field]] = {}
    for one in INSIDE:
        entries.setdefault(one.name, []).append(one)
    of_problem = [found for field in FIELDS for found in (field, *entries.get(field.key, ()))]
    sections = (HARDWARE, PARALLEL, BATCH, TRAINING, declared(TrustSection, "trust"))
    return [*of_problem, *SETUP[:1], *(one for known in sections for one in known.values())]


USUAL_HARDWARE = "h100-sxm"
USUAL_SEQUENCE = 4096
ROUNDS = 4  # microbatches a device of the pipeline
STATES = 18  # bytes of a parameter: 16-bit weights, 32-bit gradients, Adam
MOST_GPUS = 1_000_000
RANKS = (1, 2, 4, 8)

WARNING = "\n# No layout was found that fits their memory; `pipesched estimate` says by how much."


def setup_starter(model: str, hardware: str | None = None, gpus: int | None = None) -> str:
    """Return a commented config of a model on GPUs, whose layout fits their memory if one does. Raises ConfigError."""
    if gpus is not None:
        require_whole(gpus, "parallel.gpus", least=1, most=MOST_GPUS)
    gpu = USUAL_HARDWARE if hardware is None else hardware
    setup, fits = _laid_out(model, gpu, gpus)
    parallel, batch = setup.parallel, setup.batch
    values = {
        **{f"parallel.{key}": getattr(parallel, key) for key in ("gpus", "tensor", "pipeline", "expert", "data")},
        "batch.sequence": batch.sequence,
        "batch.global": batch.size,
        "training.recompute": setup.training.recompute,
    }
    named = {"name": spelled(setup.name), "model": spelled(model), "hardware": spelled(gpu)}
    parts = [SETUP_HEAD.format(title=setup.name, warning="" if fits else WARNING, **named).rstrip("\n")]
    for section, known in OF_SETUP.items():
        parts += [f"\n{section}:", *_lines("  ", known.values(), values)]
    return ("\n".join(parts) + "\n").replace("{microbatches}", str(setup.microbatches))


def _setup_on(
    name: str, hardware: str, gpus: int, tensor: int = 1, pipeline: int = 1, recompute: str = "none"
) -> Setup:
    """Return the training run of a layout; experts are spread over up to 8 ranks."""
    model, _ = read_model_section(merged(None, name, "model"))
    data = gpus // (tensor * pipeline)
    experts = 1 if model.experts is None else gcd(model.experts.count, tensor * data, RANKS[-1])
    sequence = min(USUAL_SEQUENCE, model.position_rows or USUAL_SEQUENCE)
    return setup_of(
        model=name,
        hardware=hardware,
        parallel={"gpus": gpus, "tensor": tensor, "pipeline": pipeline, "expert": experts},
        batch={"sequence": sequence, "global": ROUNDS * pipeline * data},
        training={"recompute": recompute},
    ).setup


def _laid_out(model: str, hardware: str, gpus: int | None) -> tuple[Setup, bool]:
    """Return the first setup that fits, by rising numbers of GPUs where none is given; else the last, and that."""
    from pipesched.results.run import run

    found = alone = _setup_on(model, hardware, 1)
    # enough is a power of two of at least 8, whose memory holds the states twice
    needed = 2 * STATES * parameters(alone.model).total / (alone.hardware.memory * 1e9)
    enough = max(8, 2 ** (int(needed) - 1).bit_length()) if needed > 1 else 8
    whole = alone.model
    for count in [gpus] if gpus is not None else [enough * more for more in (1, 2, 4)]:
        # tensor and pipeline by how many ranks hold the model; tensor stays in a node, and divides the model
        node = min(alone.hardware.gpus_per_node, count)
        sizes = [count, whole.heads, whole.ffn] + ([whole.kv_heads] if whole.latent is None else [])
        layouts = [
            (tensor, pipeline)
            for tensor in RANKS
            if tensor <= node and not any(size % tensor for size in sizes)
            for pipeline in range(1, min(count // tensor, whole.layers) + 1)
            if count // tensor % pipeline == 0 and (pipeline > 1 or count == tensor)
        ]
        layouts.sort(key=lambda pair: (pair[0] * pair[1], pair[0]))
        for recompute, (tensor, pipeline) in product(("none", "full"), layouts):
            found = _setup_on(model, hardware, count, tensor, pipeline, recompute)
            if run(derive(found, {}), "1f1b").schedule.fits:
                return found, True
    return found, False
