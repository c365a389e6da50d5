"""The models of published runs: a preset, or shapes by the keys of a config.json or by Megatron's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipesched.estimation.huggingface import read_model
from pipesched.estimation.model import ModelShape
from pipesched.estimation.model_reader import preset_model

NAMES = {
    "Qwen/Qwen3-235B-A22B": "qwen3-235b-a22b",
    "Qwen/Qwen3-30B-A3B": "qwen3-30b-a3b",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "mistralai/Mixtral-8x22B-v0.1": "mixtral-8x22b",
    "meta-llama/Llama-2-7b": "llama-2-7b",
}
WORDS = 50257  # of GPT-2, where a paper names none
TOKENIZERS = {"GPTSentencePieceTokenizer": 256_000, "Llama2Tokenizer": 32_000}


def model_of(record: Mapping[str, Any]) -> ModelShape:
    """Return the model of a published run."""
    shapes, name = record["model"], record["id"]
    if "megatron_args" in shapes:
        return read_model(_of_megatron(shapes["megatron_args"]), name)
    if "hf" in shapes:
        return preset_model(NAMES[shapes["hf"]])
    return read_model(_of_shapes(shapes, record["layout"], record["family"]), name)


def _of_shapes(shapes: Mapping[str, Any], layout: Mapping[str, Any], family: str) -> dict[str, Any]:
    """Return the keys of a run of a paper: a GPT with dropout where its MLP is plain, else a llama."""
    keys = {
        "num_hidden_layers": shapes["layers"],
        "hidden_size": shapes["hidden"],
        "num_attention_heads": shapes["heads"],
        "num_key_value_heads": shapes["kv_heads"],
        "intermediate_size": shapes["ffn"],
        "vocab_size": shapes.get("vocab") or WORDS,
        "tie_word_embeddings": bool(shapes.get("tied")),
    }
    if shapes["gated"]:
        return keys
    plain = {"mlp": "plain", "norm": "layer", "bias": "all", "dropout": 0.1}
    if family == "megatron-readme-h100":
        return {**keys, **plain, "dropout": 0}
    return {**keys, **plain, "positions": "learned", "max_position_embeddings": layout["seq"]}


def _of_megatron(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of Megatron's arguments, with its defaults."""
    hidden, heads = given["hidden-size"], given["num-attention-heads"]
    gated = bool(given.get("swiglu"))
    keys: dict[str, Any] = {
        "num_hidden_layers": given["num-layers"],
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": given.get("num-query-groups", heads),
        "head_dim": given.get("kv-channels", hidden // heads),
        "intermediate_size": given.get("ffn-hidden-size", 4 * hidden),
        "vocab_size": _words(given),
        "mlp": "gated" if gated else "plain",
        "norm": "rms" if given.get("normalization") == "RMSNorm" else "layer",
        "bias": "none" if given.get("disable-bias-linear") else "all",
        "positions": given.get("position-embedding-type", "learned").replace("learned_absolute", "learned"),
        "max_position_embeddings": given["max-position-embeddings"],
        "tie_word_embeddings": not given.get("untie-embeddings-and-output-weights"),
        "dropout": given.get("hidden-dropout", 0.1),
        "num_nextn_predict_layers": given.get("mtp-num-layers", 0),
    }
    return {**keys, **_experts(given, keys["intermediate_size"]), **_latent(given)}


def _words(given: Mapping[str, Any]) -> int:
    """Return the words as they are stored."""
    words: int = given.get("vocab-size") or TOKENIZERS.get(given.get("tokenizer-type", ""), WORDS)
    unit: int = given.get("make-vocab-size-divisible-by", 128) * given.get("tensor-model-parallel-size", 1)
    return -(-words // unit) * unit


def _experts(given: Mapping[str, Any], ffn: int) -> dict[str, Any]:
    if "num-experts" not in given:
        return {}
    dense = given.get("moe-layer-freq", "").partition("]*")[2].partition("+")[0]
    return {
        "num_experts": given["num-experts"],
        "num_experts_per_tok": given["moe-router-topk"],
        "moe_intermediate_size": given.get("moe-ffn-hidden-size", ffn),
        "shared_expert_intermediate_size": given.get("moe-shared-expert-intermediate-size", 0),
        "first_k_dense_replace": int(dense or 0),
    }


def _latent(given: Mapping[str, Any]) -> dict[str, Any]:
    if not given.get("multi-latent-attention"):
        return {}
    return {
        "q_lora_rank": given.get("q-lora-rank", 0),
        "kv_lora_rank": given.get("kv-lora-rank", 32),
        "qk_nope_head_dim": given.get("qk-head-dim", 128),
        "qk_rope_head_dim": given.get("qk-pos-emb-head-dim", 64),
        "v_head_dim": given.get("v-head-dim", 128),
    }
