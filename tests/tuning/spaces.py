"""Small spaces that tests of a search share, drawn at random; and what all points of a space come to, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from random import Random
from typing import Any, NamedTuple

import pipesched
from pipesched import ConfigError, Estimate, NoSchedule, NotApplicable, Trial
from pipesched.estimation.trust.evidence import evidence_base
from pipesched.estimation.trust.inside import memory_margin

Config = dict[str, Any]
GPU: Config = {"tflops": 400, "memory": 40, "bandwidth": 1500, "nvlink": 300, "nic": 25, "pcie": 32}
LLAMA: Config = {
    "num_hidden_layers": 6,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "intermediate_size": 5632,
    "vocab_size": 32000,
}
EXPERTS: Config = {
    "model_type": "qwen3_moe",
    **LLAMA,
    "head_dim": 128,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 1408,
}
DENSE_FIRST: Config = {
    "model_type": "deepseek_v3",
    **LLAMA,
    "num_key_value_heads": 16,
    "kv_lora_rank": 256,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 1024,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
}
FAMILIES = (
    "1f1b", "naive", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipe-v", "hanayo", "looped-bfs", "list",
    "1f1b-v", "chimera", "eager-1f1b", "interleaved-zb", "gis-h", "1f1b-overlap", "interleaved-overlap",
)  # fmt: skip
SPACE: Config = {
    "model": {**LLAMA, "num_hidden_layers": 8},
    "hardware": {**GPU, "memory": 8},
    "parallel": {"gpus": 8, "tensor": [1, 2], "pipeline": [2, 4], "chunks": [1, 2], "context": 1, "expert": 1},
    "batch": {"sequence": 1024, "global": 32, "micro": [1, 2]},
    "training": {"recompute": ["none", "full"]},
}
ALGORITHMS = ["1f1b", "zb-h1", "interleaved", "zb-v", "hanayo", "list", "1f1b-v", "dualpipe-v"]
WAYS = ("tensor", "pipeline", "chunks", "context", "expert", "expert_tensor")


class Found(NamedTuple):
    """A point of a space: its sizes, its algorithm, and its estimate; None where it has none."""

    sizes: tuple[Any, ...]
    algorithm: str
    estimate: Estimate | None


def small_space(seed: int, most: int = 240) -> tuple[Config, list[str]]:
    """A model, a cluster, candidates and algorithms: at most so many points. Some clusters are short of memory."""
    draw = Random(seed)
    while True:
        config, algorithms = _drawn(draw, (LLAMA, EXPERTS, LLAMA, DENSE_FIRST)[seed % 4], short=seed % 3 != 2)
        if points(config, algorithms) <= most:
            return config, algorithms


def _drawn(draw: Random, base: Config, *, short: bool) -> tuple[Config, list[str]]:
    parallel: Config = {
        "gpus": draw.choice([4, 8, 8]),
        "tensor": draw.choice([1, [1, 2], [2, 4]]),
        "pipeline": draw.choice([[2, 4], [1, 2, 4], [2, 3], 4]),
        "chunks": draw.choice([[1, 2], [2, 1, 3], 1, [2, 3]]),
        "context": draw.choice([1, 1, [1, 2]]),
        "expert": 1 if base is LLAMA else draw.choice([[1, 4], [2, 8]]),
    }
    if base is not LLAMA and draw.random() < 0.3:
        parallel["expert_tensor"] = [1, 2]
    recomputes = ("none", ["none", "full"], [{"full": 1}, "none"], ["selective", "none"], ["selective", {"full": 2}])
    config = {
        "model": {**base, "num_hidden_layers": draw.randint(4, 9), "vocab_size": draw.choice([8000, 32000, 128000])},
        "hardware": {**GPU, "memory": round(draw.uniform(3, 8), 2) if short else 80},
        "parallel": parallel,
        "batch": {
            "sequence": draw.choice([1024, 4096]),
            "global": draw.choice([16, 32]),
            "micro": draw.choice([1, [1, 2], [2, 1]]),
        },
        "training": {"recompute": draw.choice(recomputes), "flash_attention": draw.random() < 0.7},
    }
    return config, draw.sample(FAMILIES, draw.randint(5, 8))


def points(config: Config, algorithms: Sequence[str]) -> int:
    """How many points a space has."""
    return prod(map(len, fields_of(config))) * len(algorithms)


def fields_of(config: Config) -> list[list[Any]]:
    """The candidates of each field of a layout."""
    parallel, training = config["parallel"], config.get("training", {})
    ways = [parallel.get(way, 1) for way in WAYS]
    others = [config["batch"].get("micro", 1), training.get("recompute", "none")]
    return [*map(listed, (*ways, *others, training.get("shard"), parallel.get("shard_ranks")))]


def listed(value: Any) -> list[Any]:
    """The candidates of a field."""
    return value if isinstance(value, list) else [value]


def is_sure(estimate: Estimate) -> bool:
    """Whether an estimate surely fits."""
    return estimate.fits and margin(estimate) >= 0


def margin(estimate: Estimate) -> float:
    """GB that an estimate leaves where all is as large as it may be."""
    return memory_margin(estimate, evidence_base().memory.high)


def fastest(tuning: pipesched.Tuning) -> Trial:
    """The row with the highest estimated rate of those that may be the first one; of equal ones what holds less."""
    counting = [row for row in tuning if row.sure or tuning.fits == "likely"]
    return min(counting or tuning.rows, key=lambda row: row.rank)


def enumerated(config: Config, algorithms: Sequence[str], **more: Any) -> Iterator[Found]:
    """Every point of a space, estimated by itself."""
    parallel, batch, training = config["parallel"], config["batch"], config.get("training", {})
    for *ways, micro, recompute, shard, ranks in product(*fields_of(config)):
        one = {
            **config,
            **more,
            "parallel": {**parallel, **dict(zip(WAYS, ways, strict=True)), "shard_ranks": ranks},
            "batch": {**batch, "micro": micro},
            "training": {**training, "recompute": recompute, "shard": shard},
        }
        plain = recompute["full"] if isinstance(recompute, dict) else recompute
        for algorithm in algorithms:
            yield Found((*ways, micro, plain, shard, ranks, None), algorithm, estimated(one, algorithm))


def estimated(config: Config, algorithm: str) -> Estimate | None:
    """The estimate of a config; None where sizes do not divide, or the algorithm has no schedule."""
    try:
        return pipesched.estimate(None, algorithm, **config)
    except (ConfigError, NotApplicable, NoSchedule):
        return None


def held(estimate: Estimate) -> float:
    """GB of the fullest device."""
    return max(float(device.total) / 1e9 for device in estimate.devices)
