"""What counts as measured, field by field, on a list of runs by hand: the last value inside, and the first outside."""

from __future__ import annotations

from typing import Any

import pytest

from pipesched.estimation.trust.evidence import evidence_base
from pipesched.estimation.trust.facts import RunFacts
from pipesched.estimation.trust.inside import MeasuredRange, fields_outside
from tests.estimation.trust.runs import FACTS

DENSE = FACTS._replace(tensor=1, pipeline=1, chunks=1, context=1, algorithm="1f1b")
MIXTURE = DENSE._replace(experts=8, gpu="gb200", hidden=2048)
RUNS = [
    DENSE,
    DENSE._replace(gpus=512, tensor=8, pipeline=8, chunks=2, hidden=16384, algorithm="interleaved"),
    DENSE._replace(gpu="h200-sxm", tensor=2, pipeline=4, algorithm="zb", sequence=512, shard="none"),
    DENSE._replace(context=2, sequence=8192, shard="optimizer"),
    DENSE._replace(gpus=64, algorithm="v-half"),  # on one rank no schedule is measured
    MIXTURE._replace(gpus=128, tensor=2, pipeline=2, chunks=6, expert=64, expert_tensor=2, algorithm="dualpipe"),
    MIXTURE._replace(context=16, sequence=131072, shard="weights"),
]
PIPELINED = {"pipeline": 2, "chunks": 1}
RULES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [  # a field, what lies inside, and what just does not
    ("hardware", {"gpu": "h200-sxm"}, {"gpu": "gb200"}),
    ("gpus", {"gpus": 1024}, {"gpus": 1025}),
    ("tensor", {"tensor": 8}, {"tensor": 9}),
    ("tensor", {"hidden": 4096}, {"hidden": 4097}),
    ("tensor", {"hidden": 16384, "tensor": 4}, {"hidden": 16384, "tensor": 2}),
    ("pipeline", {"pipeline": 16}, {"pipeline": 17}),
    ("chunks", {"pipeline": 4, "chunks": 8}, {"pipeline": 4, "chunks": 9}),
    ("context", {"context": 2, "sequence": 4096}, {"context": 2, "sequence": 4094}),
    ("context", {"context": 2, "sequence": 1 << 20}, {"context": 4, "sequence": 8192}),
    ("context", {"context": 16, "sequence": 65536}, {"context": 16, "sequence": 65520}),  # of mixtures
    ("context", {"context": 4, "sequence": 16384}, {"context": 17, "sequence": 1 << 20}),
    ("expert", {"expert": 1}, {"expert": 2}),
    ("expert_tensor", {"expert_tensor": 1}, {"expert_tensor": 2}),
    ("micro", {"sequence": 256}, {"sequence": 255}),
    ("micro", {"sequence": 128, "micro": 2}, {"sequence": 128}),
    ("micro", {"tensor": 2, "sequence": 512}, {"tensor": 2, "sequence": 511}),  # 256 a tensor rank
    ("micro", {"tensor": 4, "sequence": 1024}, {"tensor": 4, "sequence": 1023}),
    ("algorithm", {**PIPELINED, "algorithm": "zb"}, {**PIPELINED, "algorithm": "dualpipe"}),
    ("algorithm", {"algorithm": "v-half"}, {**PIPELINED, "algorithm": "v-half"}),
    ("shard", {"shard": "none"}, {"shard": "weights"}),
    ("shard", {"shard": "optimizer"}, {"shard": "gradients"}),
    ("shard", {"shard": ""}, {"shard": "weights"}),  # not asked
]
RULES_OF_MIXTURES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("hardware", {"gpu": "gb200"}, {"gpu": "h100-sxm"}),
    ("gpus", {"gpus": 256}, {"gpus": 512}),
    ("tensor", {"tensor": 2}, {"tensor": 4, "micro": 2}),
    ("micro", {"tensor": 2}, {"tensor": 2, "sequence": 4095}),  # 2,048 a tensor rank
    ("pipeline", {"pipeline": 4}, {"pipeline": 8}),
    ("chunks", {"chunks": 24}, {"chunks": 25}),
    ("expert", {"expert": 64}, {"expert": 128}),
    ("expert_tensor", {"expert_tensor": 2}, {"expert_tensor": 4}),
    ("micro", {"sequence": 2048}, {"sequence": 2047}),
    ("algorithm", {**PIPELINED, "algorithm": "dualpipe"}, {**PIPELINED, "algorithm": "zb"}),
    ("algorithm", {**PIPELINED, "algorithm": "interleaved"}, {**PIPELINED, "algorithm": "interleaved-zb"}),
    ("shard", {"shard": "weights"}, {"shard": "none"}),
]


def outside(facts: RunFacts) -> list[str]:
    """The fields of a run that lie outside the list."""
    return [one.field for one in MeasuredRange(RUNS, experts=bool(facts.experts)).outside(facts)]


@pytest.mark.parametrize(("field", "inside", "beyond"), RULES)
def test_dense(field: str, inside: dict[str, Any], beyond: dict[str, Any]) -> None:
    """Dense models are held against dense runs, rings of attention against all."""
    assert outside(DENSE._replace(**inside)) == []
    assert outside(DENSE._replace(**beyond)) == [field]


@pytest.mark.parametrize(("field", "inside", "beyond"), RULES_OF_MIXTURES)
def test_mixtures(field: str, inside: dict[str, Any], beyond: dict[str, Any]) -> None:
    """Models with experts are held against such runs alone."""
    assert outside(MIXTURE._replace(**inside)) == []
    assert outside(MIXTURE._replace(**beyond)) == [field]


def test_what_was_measured_is_said() -> None:
    """A field that lies outside names its value, and what was measured; several come in the order of a config."""
    facts = DENSE._replace(gpu="gb200", gpus=2048, tensor=16, context=4, sequence=4096, algorithm="hanayo", pipeline=32)
    assert [*MeasuredRange(RUNS, experts=False).outside(facts)] == [
        ("hardware", "gb200", "such models on h100-sxm, h200-sxm"),
        ("gpus", 2048, "at most 512"),
        ("tensor", 16, "at most 8"),
        ("pipeline", 32, "at most 8"),
        ("context", 4, "2 at 4,096 tokens a rank, 16 at 8,192 tokens a rank"),
        ("micro", 1, "at least 256 for such a hidden size, not 64 tokens of a microbatch per tensor rank"),
        ("algorithm", "hanayo", "1f1b, interleaved, zb"),
    ]
    wide = MeasuredRange(RUNS, experts=False).outside(DENSE._replace(hidden=16384, tensor=2))
    assert [*wide] == [("tensor", 2, "at most 4,096, not 8,192 of the hidden size on a rank")]
    few = MeasuredRange(RUNS, experts=False).outside(DENSE._replace(sequence=100))
    assert [*few] == [("micro", 1, "at least 512, not 100 tokens of a microbatch on a rank")]
    no_ring = MeasuredRange([DENSE], experts=False).outside(DENSE._replace(context=2, micro=2))
    assert [*no_ring] == [("context", 2, "none")]


def test_what_was_published_lies_inside() -> None:
    """Each run of the package is evidence for itself."""
    for one in evidence_base().runs:
        assert fields_outside(one.compared.facts) == (), one.run


@pytest.mark.parametrize("gpu", ["h100-sxm", "a100-80gb-sxm"])
@pytest.mark.parametrize("hidden", [4096, 5120])
def test_little_work_of_a_microbatch_lies_outside(gpu: str, hidden: int) -> None:
    """1,024 tokens over tensor 4: eager frameworks take four times the interval then, and no run here is like that."""
    shape: dict[str, Any] = {"hidden": hidden, "context": 1, "algorithm": "1f1b"}
    facts = DENSE._replace(gpu=gpu, tensor=4, sequence=1024, **shape)
    assert [one.field for one in fields_outside(facts)] == ["micro"]
    assert fields_outside(facts._replace(sequence=4096)) == ()


def test_every_measured_run_lies_inside() -> None:
    """Of its own kind: nothing that was measured is called unlike it."""
    assert not [run.run for run in evidence_base().runs if fields_outside(run.compared.facts)]
