"""Documents of a model on GPUs: at the cap they cost what is estimated, and halves of them half of the core."""

from __future__ import annotations

from typing import Any

import pytest

import pipesched
from pipesched.comparing.packing.timing import model_costs
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.results.document_costs import load_of
from pipesched.schedulers.registry import family

CAP = 4096
SETUP: dict[str, Any] = {
    "model": "llama-2-7b",
    "hardware": "h100-sxm",
    "parallel": {"gpus": 4, "tensor": 1, "pipeline": 4},
    "batch": {"sequence": CAP, "micro": 1, "global": 8},
}
TIMES = ("forward", "backward_input", "backward_weight")


@pytest.mark.parametrize(
    "training", [{}, {"recompute": "full"}, {"recompute": {"full": 2}}, {"flash_attention": False}]
)
def test_one_document_of_the_cap(training: dict[str, Any]) -> None:
    """It costs what `estimate` says of one sequence as long, number for number, by any way of recompute."""
    problem = pipesched.load(**SETUP, training=training)
    base, _, costs = model_costs(problem, family("1f1b"), CAP)
    made = costs.problem(base, [load_of([CAP])] * 8)
    estimated = pipesched.run(problem, "1f1b").problem
    for key in (*TIMES, "p2p"):
        assert getattr(made.costs, key) == getattr(estimated.costs, key), key
    assert made.memory == estimated.memory
    assert costs.work(load_of([CAP])) == 1
    assert all(0 < core < costs.linear["forward"][stage] for stage, core in enumerate(costs.core["forward"]))
    assert not any(costs.core["backward_weight"])


def test_halves_of_it() -> None:
    """Two documents of half the cap take as much, but for half of the core; one of them half of that."""
    base, _, costs = model_costs(pipesched.load(**SETUP), family("1f1b"), CAP)
    half = CAP // 2
    made = costs.problem(base, [load_of([CAP]), load_of([half, half]), load_of([half])])
    for key in TIMES:
        for row, core in zip(getattr(made.costs, key), costs.core[key], strict=True):
            whole, both, one = row if isinstance(row, tuple) else (row, row, row)
            if isinstance(row, tuple):
                assert to_fraction(both) == to_fraction(whole) - core / 2
                assert 2 * to_fraction(one) == to_fraction(both)
    assert made.sizes is not None
    assert made.sizes.activation == made.sizes.message == (1, 1, 0.5)


def test_times_that_were_given() -> None:
    """A time in place of the model's own grows with the tokens alone."""
    *_, costs = model_costs(pipesched.load(**SETUP, forward=3), family("1f1b"), CAP)
    assert [*costs.core["forward"]] == [0] * 4
    assert [*costs.linear["forward"]] == [3] * 4
    assert all(costs.core["backward_input"])


def test_more_tokens_than_the_model_takes() -> None:
    """A cap beyond the positions that a model learned is refused."""
    problem = pipesched.load(**{**SETUP, "model": "gpt2-xl", "batch": {**SETUP["batch"], "sequence": 1024}})
    with pytest.raises(ConfigError, match="at most the 1024 learned positions") as caught:
        model_costs(problem, family("1f1b"), CAP)
    assert caught.value.key == "cap"


@pytest.mark.parametrize("algorithm", ["1f1b", "zb-h1", "interleaved"])
def test_packing(algorithm: str) -> None:
    """A packing of a model takes what `run` says of its ranks, and is above its bound."""
    problem = pipesched.load(**SETUP)
    lengths = [4000, 3000, 2500, 1700, 1200, 900, 700, 600, 500, 400, 300, 300, 200, 150, 100, 90, 80, 60, 50, 40]
    packing = pipesched.pack(lengths, ranks=2, cap=CAP, problem=problem, microbatches=4, algorithm=algorithm)
    assert [packing.schedule(rank).makespan for rank in range(2)] == [*packing.makespans]
    assert packing.bound <= packing.makespan
    factors = pipesched.pack(lengths, ranks=2, cap=CAP, problem=problem, microbatches=4, attention=0.1)
    assert factors.problem(0).costs == factors.base.costs
