"""Schedules whose texts for trainers stand in tests/golden/handover: of each family, of models, and odd ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pipesched
from pipesched import Outcome

P, M = 4, 8
PATTERN = "MEMEM*EMEMEM*E|MEMEM*EMEMEM*E|MEMEM*EMEMEMEM|*EMEMEMEME"
MODEL = Path(pipesched.__file__).parent.parent / "docs" / "tutorial" / "hybrid"
HYBRID: dict[str, Any] = {"model": str(MODEL), "parallel": {"expert": 4}, "layout": PATTERN}
LOOPED: dict[str, Any] = {"parallel": {"chunks": 2}, "layout": "equal"}
EXPERTS: dict[str, Any] = {"model": "mixtral-8x7b"}
OVERLAPPED: dict[str, Any] = {**EXPERTS, "layout": "equal", "flash_attention": True}
OVER = {"chunks": 2, "expert": 4}
BESIDE: dict[str, dict[str, Any]] = {
    "": {},
    " by alltoall": {"dispatcher": "alltoall"},
    " by allgather": {"dispatcher": "allgather"},
    " on one rank": {"parallel": {**OVER, "expert": 1}},
    " with full recompute": {"recompute": "full"},
    " in fp32": {"precision": "fp32"},
}


def made(algorithm: str, devices: int = P, chunks: int = 1, microbatches: int = M, **options: Any) -> Outcome:
    """The schedule of a family."""
    costs: dict[str, Any] = {"forward": 5, "backward_input": 5, "backward_weight": 5, "offload": 1}
    problem = pipesched.make_problem(devices=devices, chunks=chunks, microbatches=microbatches, **costs)
    return pipesched.run(problem, algorithm, **options)


def of(algorithm: str, order: Any = None, **values: Any) -> Outcome:
    """The schedule of a family on another problem of as many devices and microbatches."""
    problem = pipesched.make_problem(**{"devices": P, "microbatches": M, **values})
    return pipesched.run(problem, algorithm, order=order)


def of_model(
    algorithm: str = "1f1b", *, model: str = "llama-3-8b", hardware: str = "h100-sxm", parallel: Any = None,
    micro: int = 1, more: Any = None, **training: Any,
) -> Outcome:  # fmt: skip
    """The schedule of a model on 64 GPUs, 4 of them in a pipeline, in steps of 128 sequences of 8192 tokens."""
    sections = {
        "model": model,
        "hardware": hardware,
        "parallel": {"gpus": 64, "pipeline": P, **(parallel or {})},
        "batch": {"sequence": 8192, "micro": micro, "global": 128},
        "training": {"flash_attention": False, "layout": [8] * P, **training},
    }
    return pipesched.run(pipesched.load(json.dumps({**sections, **(more or {})})), algorithm)


def optimized(optimizer: str | int) -> Outcome:
    """The schedule of a model with an optimizer."""
    sections: dict[str, Any] = {"parallel": {"gpus": 4, "pipeline": 4}, "batch": {"sequence": 4096, "global": 8}}
    training = {"optimizer": optimizer, "layout": "equal"}
    problem = pipesched.load(None, model="llama-3-8b", hardware="h100-sxm", training=training, **sections)
    return pipesched.run(problem, "1f1b")


def renamed(name: str, make: Callable[..., Outcome], *given: Any, **more: Any) -> Outcome:
    """A schedule by another name."""
    return Outcome(name, make(*given, **more).schedule)


FAMILIES: dict[str, Callable[[], Outcome]] = {
    **{name: partial(made, name) for name in ("1f1b", "naive", "eager-1f1b", "zb-h1", "zb-h2", "zb-auto")},
    **{
        name: partial(made, name, chunks=2)
        for name in (
            *("interleaved", "looped-bfs", "interleaved-zb", "zb-v", "v-half", "v-min", "1f1b-v", "dualpipe-v"),
            *("dualpipe-v-whole", "gis-h", "interleaved-overlap"),
        )
    },
    "dualpipe": partial(made, "dualpipe"),
    "chimera": partial(made, "chimera"),
    "naive, lifo": partial(made, "naive", lifo=True),
    "1f1b of 3 microbatches": partial(made, "1f1b", microbatches=3),
    "looped-bfs of 6 microbatches": partial(made, "looped-bfs", chunks=2, microbatches=6),
    "dualpipe-v-whole of 7 microbatches": partial(made, "dualpipe-v-whole", chunks=2, microbatches=7),
    "interleaved of 2 microbatches": partial(made, "interleaved", chunks=2, microbatches=2),
    "interleaved on one device": partial(made, "interleaved", devices=1, chunks=2),
    "interleaved of 9 microbatches": partial(made, "interleaved", chunks=2, microbatches=9),
    "interleaved in groups of 8": partial(made, "interleaved", chunks=2, group_size=8),
    "interleaved of 16 in groups of 8": partial(made, "interleaved", chunks=2, microbatches=16, group_size=8),
    "interleaved of 9 in groups of 4": partial(made, "interleaved", chunks=2, microbatches=9, group_size=4),
    "interleaved of 9 in groups of 8": partial(made, "interleaved", chunks=2, microbatches=9, group_size=8),
    "interleaved of 11, slow backward": partial(of, "interleaved", stages=8, microbatches=11, backward=8),
    "recompute": partial(made, "1f1b", recompute="full"),
    "offload": partial(made, "1f1b", offload="full"),
    "1f1b by another name": partial(renamed, "mine", made, "1f1b"),
    "another order named 1f1b": partial(renamed, "1f1b", made, "eager-1f1b"),
}
UNLIKE: dict[str, Callable[[], Outcome]] = {
    "forward differs": partial(of, "1f1b", forward=[11.2, 18.4, 12, 12], backward=[22, 40, 24, 24]),
    "backward differs": partial(of, "1f1b", forward=5, backward=[10, 12, 10, 10]),
    "layers": partial(of, "1f1b", layers=10, layer={"forward": 1}, last={"forward": 2}),
    "several losses and MTP layers": partial(
        of, "1f1b", layers=4, layout="Et*4|m|m|LLL", layer={"forward": 1}, mtp={"forward": 1}, last={"forward": 1}
    ),
    "works differ": partial(of, "1f1b", sizes={"work": [1, 2] * 4}),
    "works differ, in an order": partial(of, "1f1b", [7, *range(7)], sizes={"work": [1, 2] * 4}, messages="rank"),
    "works differ, in an order of zb-h1": partial(of, "zb-h1", [7, 1, 2, 0, 3, 4, 5, 6], sizes={"work": [1, 2] * 4}),
    "messages differ": partial(of, "1f1b", sizes={"message": [1, 2] * 4}),
    "activations differ": partial(of, "1f1b", sizes={"activation": [1, 2] * 4}),
    "latencies differ": partial(of, "1f1b", p2p=[[1, 2] * 4] * 3),
    "seq-1f1b": partial(of, "seq-1f1b", slices=4),
    "seq-1f1b by another name": partial(renamed, "mine", of, "seq-1f1b", slices=4),
    "seq-1f1b of works that differ": partial(of, "seq-1f1b", slices=4, sizes={"work": [*range(1, M + 1)]}),
    "seq-1f1b with attention": partial(of, "seq-1f1b", slices={"count": 4, "attention": 0.5}),
    "seq-1f1b of unequal tokens": partial(of, "seq-1f1b", slices={"count": 2, "tokens": [0.25, 0.75]}),
    "slices in another order": partial(of, "naive", slices=4),
    "forward passes alone": partial(of, "naive", mode="forward"),
    "side work": partial(of, "1f1b", side=[{"forward": 2}]),
    "zb-h1 with a step": partial(of, "zb-h1", backward_input=1, backward_weight=1, gather=1, reduce=1, optimizer=1),
    **{
        f"shard {level}": partial(of, "1f1b", reduce=3, optimizer=2, shard={"level": level, "ranks": 8})
        for level in ("none", "optimizer", "gradients", "weights")
    },
    **{
        f"gather {gather}": partial(of, "1f1b", gather=4, shard={"level": "weights", "ranks": 2, "gather": gather})
        for gather in ("each", "ahead")
    },
}
MODELS: dict[str, Callable[[], Outcome]] = {
    "dense": partial(of_model, parallel={"tensor": 2, "sequence": True}, recompute="selective"),
    "long": partial(of_model, parallel={"tensor": 2, "context": 2, "sequence": False}, micro=2, recompute="full"),
    "gathered": partial(of_model, parallel={"context": 4}, context="gather"),
    "plain": partial(of_model, precision="fp16", gradients="bf16", distributed_optimizer=False, recompute={"full": 3}),
    "full recompute": partial(of_model, recompute="full"),
    "microbatches that are given": partial(of_model, micro=2, more={"microbatches": 6}),
    **{f"optimizer {one}": partial(optimized, one) for one in ("adam", "sgd", "adam-bf16", "muon", 4)},
    "fp16": partial(of_model, precision="fp16"),
    "fp32": partial(of_model, precision="fp32"),
    **{one: partial(of_model, hardware="b200", precision=one) for one in ("fp8", "fp8-blockwise", "mxfp8", "nvfp4")},
    **{
        f"{one} whose optimizer is whole": partial(
            of_model, hardware="b200", precision=one, gradients="bf16", distributed_optimizer=False
        )
        for one in ("fp8", "mxfp8", "nvfp4")
    },
    "experts": partial(
        of_model, **EXPERTS, parallel={"tensor": 2, "expert": 8, "expert_tensor": 1, "sequence": True}, gradients="bf16"
    ),
    "together": partial(of_model, **EXPERTS, parallel={"tensor": 2, "expert": 2, "expert_tensor": 2, "sequence": True}),
    "experts of whole ranks": partial(of_model, **EXPERTS, parallel={"tensor": 2}),
    **{
        f"experts split in {split}": partial(
            of_model,
            **EXPERTS,
            layout="equal",
            parallel={"pipeline": 2, "tensor": 4, "expert": 4, "expert_tensor": split, "sequence": True},
        )
        for split in (1, 2)
    },
    "experts and shards": partial(
        of_model, **EXPERTS, parallel={"tensor": 2, "expert": 8, "sequence": True}, shard="weights"
    ),
    "experts and groups": partial(
        of_model, **EXPERTS, parallel={"tensor": 2, "expert": 4, "shard_ranks": 4, "sequence": True}, shard="weights"
    ),
    **{
        f"experts on {one}": partial(of_model, **EXPERTS, hardware=one, parallel={"expert": 8})
        for one in ("h100-sxm", "b200", "gb200", "gb300")
    },
    "experts by allgather": partial(of_model, **EXPERTS, dispatcher="allgather", parallel={"expert": 8}),
    **{
        f"interleaved-overlap of experts{name}": partial(
            of_model, "interleaved-overlap", **{"parallel": OVER, **OVERLAPPED, **given}
        )
        for name, given in BESIDE.items()
    },
    "hybrid": partial(of_model, **HYBRID),
    **{
        f"model, shard {level}": partial(of_model, shard=level)
        for level in ("none", "optimizer", "gradients", "weights")
    },
    **{
        f"model, shard {level} of 8 ranks": partial(of_model, parallel={"shard_ranks": 8}, shard=level)
        for level in ("optimizer", "weights")
    },
    **{
        f"model, context 2, shard ranks {ranks}": partial(
            of_model, parallel={"context": 2, "shard_ranks": ranks}, shard="weights"
        )
        for ranks in (8, 1)
    },
    **{
        f"looped-bfs, gather {gather}": partial(
            of_model, "looped-bfs", **LOOPED, shard="weights", more={"shard": {"gather": gather}}
        )
        for gather in ("ahead", "each")
    },
    "looped-bfs in fp8": partial(of_model, "looped-bfs", **LOOPED, precision="fp8"),
}
OUTCOMES = {**FAMILIES, **UNLIKE, **MODELS}
LAYERS: dict[str, tuple[str, Any]] = {  # -> an outcome, and the layers of its stages
    "1f1b of layers": ("1f1b", [5, 6, 6, 3]),
    "1f1b of even layers": ("1f1b", [5, 5, 5, 5]),
    "stages that differ and their layers": ("forward differs", [5, 6, 6, 3]),
    "looped-bfs of even layers": ("looped-bfs", [3] * 8),
    "looped-bfs of layers": ("looped-bfs", [3] * 7 + [2]),
    "looped-bfs of an empty stage": ("looped-bfs", "Et|(t|)*6tLL"),
    "hybrid, cut evenly": ("hybrid", [13] * 4),
}


@cache
def outcome(name: str) -> Outcome:
    """One of these schedules, which is made once."""
    return OUTCOMES[name]()


def texts(framework: str) -> dict[str, str]:
    """The texts of a trainer for all these schedules, or why it has none."""
    found = {}
    for name in (*OUTCOMES, *LAYERS):
        which, layers = LAYERS.get(name, (name, None))
        try:
            found[name] = pipesched.hand_over(outcome(which), framework, layers=layers)
        except pipesched.PipeschedError as refusal:
            found[name] = f"refused: {refusal}\n"
    return found
