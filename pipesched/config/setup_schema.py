"""The JSON Schema of the sections that describe a training run: model, hardware, parallel, batch, training, trust."""

from __future__ import annotations

from typing import Any

from pipesched.config.trust_section import FITS
from pipesched.estimation.hardware import COUNTS, GEMM, NUMBERS, SHARES
from pipesched.estimation.huggingface import MODEL_TYPES
from pipesched.estimation.model import BIASES, MLPS, NORMS, POSITIONS
from pipesched.estimation.model_reader import HARDWARE, preset_names
from pipesched.estimation.setup import AUTO, BF16, CONTEXTS, FP32, FULL, OPTIMIZERS, PRECISIONS, RECOMPUTES, SIZES
from pipesched.pipeline.step import LEVELS
from pipesched.text.fields import SETUP

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 1}
NUMBER: Schema = {"type": "number", "exclusiveMinimum": 0}
SHARE: Schema = {"type": "number", "minimum": 0}
MEMORY: Schema = {"type": "string", "pattern": r"^\s*[0-9.]+([eE][-+]?[0-9]+)?\s*([kMGT]?B|[KMGT]iB)\s*$"}
PARALLEL = {
    "gpus": "on how many GPUs to train",
    "tensor": "ranks that share each layer",
    "pipeline": "devices of the pipeline",
    "chunks": "stages of a device",
    "context": "ranks that share the sequence",
    "expert": "ranks that share the experts; times expert_tensor it divides tensor x context x data",
    "expert_tensor": "ranks that share each expert",
    "data": "derived: gpus / (tensor x pipeline x context); checked if given",
    "shard_ranks": "ranks that divide what training.shard says; divides data x context, the default",
}
BATCH = {
    "sequence": "tokens of a sequence",
    "micro": "sequences of a microbatch; default 1",
    "global": "sequences of a step, over all GPUs",
}
SWITCHES = {
    "distributed_optimizer": "the optimizer's numbers are spread over data-parallel ranks (ZeRO-1); default true",
    "flash_attention": "attention between tokens is fused; default true",
    "tensor_overlap": "tensor-parallel communication runs beside its products; default false",
    "fused_loss": "the loss never forms 32-bit logits; default false",
}
SHARD = (
    "what data-parallel ranks divide: none, optimizer, gradients or weights (ZeRO 0 to 3); gathers, reductions and the"
    " optimizer are then operations of the schedule; default: they are one time behind it"
)
GPU = {
    "tflops": "peak of dense 16-bit products, in TFLOP/s",
    "memory": "in GB",
    "bandwidth": "of its memory, in GB/s",
    "nvlink": "to others of its node, in GB/s a direction; absent: none",
    "pcie": "to the host, in GB/s a direction",
    "nic": "a network card, of a GPU or of gpus_per_nic, in GB/s a direction",
    "gpus_per_node": "GPUs of a node; default 8",
    "nvlink_gpus": "GPUs that NVLink joins from node to node",
    "gpus_per_nic": "GPUs that share a network card; default 1",
}


def setup_schemas() -> dict[str, Schema]:
    """Return the schema of each section, by its name."""
    shapes = {
        "model": [TEXT, _model()],
        "hardware": [{"enum": list(preset_names(HARDWARE))}, object_schema(_hardware())],
        "parallel": [{**object_schema(_parallel()), "required": ["gpus"]}],
        "batch": [_batch()],
        "training": [object_schema(_training())],
        "trust": [
            object_schema({"like": _or_null(TEXT), "beyond": _or_null(FLAG), "fits": _or_null({"enum": [*FITS]})})
        ],
    }
    return {field.key: {"description": field.help, "anyOf": [*shapes[field.key], {"type": "null"}]} for field in SETUP}


def _batch() -> Schema:
    documents: Schema = {"type": "array", "minItems": 1, "items": COUNT}
    lengths: Schema = {
        "type": "array",
        "minItems": 1,
        "items": documents,
        "description": "instead of the rest: lengths of the documents of each microbatch of a data-parallel rank",
    }
    either = [{"required": ["sequence", "global"]}, {"required": ["lengths"]}]
    return {**object_schema({**_described(BATCH, COUNT, "micro"), "lengths": lengths}), "anyOf": either}


def object_schema(properties: dict[str, Schema]) -> Schema:
    """Return the schema of a mapping with these keys and no others."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _described(helps: dict[str, str], shape: Schema, *searched: str) -> dict[str, Schema]:
    """Return a schema for each key; a key of `searched` may hold candidates of a search instead."""
    return {
        key: {"description": text, "anyOf": [shape, {"type": "null"}, *(_candidates(shape) if key in searched else [])]}
        for key, text in helps.items()
    }


def _candidates(shape: Schema) -> list[Schema]:
    return [{"const": AUTO}, {"type": "array", "items": shape}]


def _model() -> Schema:
    """Return the schema of a mapping of Hugging Face's keys: those that it knows, and any other."""
    own = {"mlp": MLPS, "norm": NORMS, "bias": BIASES, "positions": POSITIONS}
    properties = {key: _or_null({"enum": list(names)}) for key, names in {**own, "model_type": MODEL_TYPES}.items()}
    properties |= {"tie_word_embeddings": _or_null(FLAG), "dropout": _or_null({**SHARE, "maximum": 1})}
    return {"type": "object", "properties": properties}


def _hardware() -> dict[str, Schema]:
    numbers = _described({key: GPU[key] for key in NUMBERS if key not in COUNTS}, NUMBER)
    numbers |= _described({key: GPU[key] for key in NUMBERS if key in COUNTS}, COUNT)
    numbers["memory"]["anyOf"].append(MEMORY)
    return {"preset": _or_null({"enum": list(preset_names(HARDWARE))}), **numbers}


def _parallel() -> dict[str, Schema]:
    what = "sequence parallelism; default: with tensor parallelism"
    return {
        **_described(PARALLEL, COUNT, *SIZES, "shard_ranks"),
        "sequence": {"description": what, "anyOf": [FLAG, {"type": "null"}, *_candidates(FLAG)]},
    }


def _training() -> dict[str, Schema]:
    recompute, of_layers = {"enum": list(RECOMPUTES)}, {**object_schema({FULL: COUNT}), "required": [FULL]}
    gemm = {"anyOf": [SHARE, object_schema({part: _or_null(SHARE) for part in GEMM}), {"type": "null"}]}
    shares = {key: gemm if key == "gemm" else _or_null(SHARE) for key in SHARES}
    return {
        "precision": {"description": "of weights and activations; default bf16", **_or_null({"enum": [*PRECISIONS]})},
        "gradients": {"description": "of the main gradients; default fp32", **_or_null({"enum": [FP32, BF16]})},
        "optimizer": {
            "description": "adam (default), adam-bf16, muon, sgd, or the bytes of its states of a parameter",
            "anyOf": [{"enum": [*OPTIMIZERS]}, SHARE, {"type": "null"}],
        },
        **_described(SWITCHES, FLAG),
        **_described({"shard": SHARD}, {"enum": [*LEVELS]}, "shard"),
        "context": {
            "description": "context-parallel ranks pass keys and values round a ring, or gather them; default ring",
            **_or_null({"enum": [*CONTEXTS]}),
        },
        "recompute": {
            "description": "none, selective (the core of attention), full, or full of so many layers of each stage",
            "anyOf": [recompute, of_layers, *_candidates(recompute), {"type": "null"}],
        },
        "layout": {
            "description": "best (or auto), balanced, equal, the layers of each stage, or Megatron's text of them",
            "anyOf": [TEXT, {"type": "array", "items": {"type": "integer", "minimum": 0}}, {"type": "null"}],
        },
        "efficiency": {
            "description": "measured shares of the GPU's numbers, or the name of a YAML file of them",
            "anyOf": [TEXT, object_schema(shares), {"type": "null"}],
        },
    }
