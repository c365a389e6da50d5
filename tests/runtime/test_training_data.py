"""What a training takes: its data, its rows and weights, and what does not go together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError
from tests.examples import at_night_but
from tests.runtime_ranks import DEVICE
from tests.torch_ranks import needs_torch

pytestmark = needs_torch
GPT = "tests.runtime.gpt"
STEPS, MICROBATCHES = 3, 4


def problem(devices: int = 2, stages: int = 4) -> pipesched.Problem:
    """A problem for the pieces of the small GPT."""
    return pipesched.make_problem(
        devices=devices, stages=stages, microbatches=MICROBATCHES, forward=1, backward_input=1, backward_weight=1
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    at_night_but((("tied", "interleaved"),), product(("tied", "untied"), ("1f1b", "interleaved", "zb-v", "dualpipe"))),
)
def test_a_gpt_has_the_losses_without_a_pipeline(case: tuple[str, str]) -> None:
    """Embedding, blocks and head, tied or not, by four schedules: the losses are those of a plain loop."""
    from pipesched.runtime import train
    from tests.runtime import gpt

    model, algorithm = case
    found = train(algorithm, f"{GPT}:{model}", problem=problem(), data=f"{GPT}:data", steps=STEPS)
    assert found is not None
    expected = gpt.train_unpipelined(getattr(gpt, model)(), STEPS, MICROBATCHES)
    assert found["losses"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["1f1b", "zb-v", "dualpipe"])
@pytest.mark.nightly
def test_lengths_that_change_and_weights(algorithm: str) -> None:
    """Each microbatch of each step has its own rows and length; beside data `rows` only weigh."""
    from pipesched.runtime import train
    from tests.runtime import gpt

    rows, options = [3, 1, 4, 2], {"problem": problem(), "data": f"{GPT}:packed", "steps": STEPS}
    for given in (None, rows):
        found = train(algorithm, f"{GPT}:tied", rows=given, **options)  # type: ignore[arg-type]
        assert found is not None
        expected = gpt.train_unpipelined(gpt.tied(), STEPS, MICROBATCHES, gpt.packed, given)
        assert found["losses"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.nightly
def test_a_gpt_is_profiled() -> None:
    """Its config has the sizes of the data; weights that stages share stand on both."""
    from pipesched.runtime import profile
    from tests.runtime import gpt

    found = profile(gpt.tied(), data=gpt.data, loss=gpt.loss, repeats=2, devices=2, name="gpt")
    assert found.title.startswith(f"gpt, microbatch 4,16 int64, {DEVICE}, ")
    weights = gpt.WORDS * gpt.WIDTH
    places = gpt.LENGTH * gpt.WIDTH
    assert [found.stages[0].static, found.stages[-1].static] == [2 * 8 * (weights + places), 2 * 8 * weights]


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ({}, ("float32", "float32", "mse")),
        ({"dtype": "float64"}, ("float64", "float64", "mse")),
        ({"dtype": "int64"}, ("int64", "int64", "cross_entropy")),
        ({"dtype": "int32", "vocab": 9}, ("int32", "int32", "cross_entropy")),
        ({"dtype": "int64", "loss": "mse"}, ("int64", "int64", "mse")),
    ],
)
def test_random_numbers(given: dict[str, Any], kinds: tuple[str, str, str]) -> None:
    """Floats from 0 to 1, integers below vocab (default 2), targets of the same shape, other numbers; and the loss."""
    from pipesched.runtime.training_data import data_source

    source = data_source(**{"data": None, "loss": None, "shape": [30, 20], "dtype": None, "vocab": None, **given})
    inputs, targets, _ = source.microbatches(0, 3, 5)
    assert (str(inputs.dtype), str(targets.dtype)) == (f"torch.{kinds[0]}", f"torch.{kinds[1]}")
    assert inputs.shape == targets.shape == (3, 30, 20)
    assert not inputs.equal(targets)
    assert min(inputs.min(), targets.min()) >= 0
    most = 1 if inputs.is_floating_point() else given.get("vocab", 2) - 1
    assert (inputs.max() < most) if inputs.is_floating_point() else (inputs.max() == targets.max() == most)
    assert source.loss_for(inputs).__name__ == kinds[2]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_random_numbers_of_unequal_rows(dtype: str) -> None:
    """`rows` stand in place of the first size of the shape; no two microbatches have the same numbers."""
    from pipesched.runtime.training_data import data_source

    source = data_source(None, None, [30, 20], dtype, 100 if dtype == "int64" else None)._replace(rows=(4, 1, 4))
    inputs, targets, _ = source.microbatches(0, 3, 5)
    for part in (inputs, targets):
        assert [tuple(one.shape) for one in part] == [(4, 20), (1, 20), (4, 20)]
        assert {str(one.dtype) for one in part} == {f"torch.{dtype}"}
        assert not part[0].equal(part[2])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data": f"{GPT}:data", "shape": [8]}, "shape: has no effect beside `data`"),
        ({"data": f"{GPT}:data", "vocab": 3}, "vocab: has no effect beside `data`"),
        ({"data": "gpt"}, "data: must be package.module:function, not 'gpt'"),
        ({"data": f"{GPT}:nothing"}, f"data: '{GPT}' has no function 'nothing'"),
        ({}, "shape: is missing: the sizes of a microbatch"),
        ({"shape": [8], "vocab": 3}, "vocab: is for inputs of integers; these are float32"),
        (
            {"shape": [8], "dtype": "int8", "vocab": 129},
            "vocab: must be a whole number of at least 1 (at most 128), not 129",
        ),
        ({"shape": [8], "dtype": "int"}, None),
        ({"shape": [8], "dtype": "word"}, "dtype: must be the name of a type of PyTorch"),
        ({"shape": [8], "loss": "crossentropy"}, "loss: must be mse, cross-entropy or package.module:function"),
    ],
)
def test_what_does_not_go_together(given: dict[str, Any], message: str | None) -> None:
    """A ConfigError that names the parameter."""
    from pipesched.runtime.training_data import data_source

    every = {"data": None, "loss": None, "shape": None, "dtype": None, "vocab": None, **given}
    if message is None:
        data_source(**every)
        return
    with pytest.raises(pipesched.ConfigError) as error:
        data_source(**every)
    assert str(error.value).startswith(message)


PROFILED = [  # a model, what it is profiled by, what is said
    ("untied", {"shape": [4, 8]}, r"RuntimeError: Expected tensor .* \(0F0\); hint: `dtype` int64"),
    (
        "untied",
        {"shape": [4, 8], "dtype": "int64", "vocab": 51},
        r"IndexError: index out of range in self \(0F0\); hint: `vocab` N",
    ),
    ("broken", {"data": f"{GPT}:data"}, r"RuntimeError: (addmm: )?mat1 and mat2 shapes .* \(2F0\)"),
    (
        "untied",
        {"data": f"{GPT}:data", "loss": "mse"},
        r"ValueError: output and target do not fit: mse takes two of one shape"
        r" \(in the loss: output \[4, 16, 50\] float64, target \[4, 16\] int64\) \(3F0\); hint: `loss` or `data`",
    ),
    (
        "untied",
        {"data": f"{GPT}:data", "loss": f"{GPT}:numbers"},
        r"TypeError: the loss function must return a tensor with one element"
        r" \(in the loss: output \[4, 16, 50\] float64, target \[4, 16\] int64\) \(3F0\)",
    ),
    ("untied", {"data": f"{GPT}:short"}, r"TypeError: must return \(inputs, targets\), 1 microbatches each, .*"),
    ("raises", {"data": f"{GPT}:data"}, r"FileNotFoundError: no weights here \(in the making of the model\)"),
]


@pytest.mark.parametrize("case", at_night_but(PROFILED[3:4], PROFILED), ids=range(len(PROFILED)))
def test_mistakes_in_a_profile(case: tuple[str, dict[str, Any], str]) -> None:
    """One line with type, message, place, shapes and hint; and the traceback beside it."""
    from pipesched.runtime import profile
    from pipesched.runtime.model_source import pieces_of

    model, given, message = case
    if DEVICE == "cuda" and "vocab" in given:
        pytest.skip("an index that is out of range leaves a GPU useless to its process")
    with pytest.raises(pipesched.RankFailed) as error:
        profile(pieces_of(f"{GPT}:{model}"), repeats=2, **given)
    assert re.fullmatch(message, str(error.value))
    assert error.value.trace.startswith("Traceback (most recent call last):\n")


TRAINED = [
    ("broken", {}, 0, r"RuntimeError: (addmm: )?mat1 and mat2 shapes .* \(2F0 on rank 0\)"),
    ("untied", {"data": f"{GPT}:later"}, 1, r"KeyError: 'no more\\ndata' \(in the data of step 1\)"),
    (
        "untied",
        {"loss": "mse"},
        0,
        r"ValueError: .* \(in the loss: output \[4, 16, 50\] float64, target \[4, 16\] int64\)"
        r" \(3F0 on rank 1\); hint: `loss` or `data`",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", at_night_but(TRAINED[1:2], TRAINED), ids=range(len(TRAINED)))
def test_mistakes_in_a_training(case: tuple[str, dict[str, Any], int, str]) -> None:
    """The line names the rank; the steps before it are heard."""
    from pipesched.runtime import train

    model, given, steps, message = case
    heard: list[int] = []
    options: dict[str, Any] = {"data": f"{GPT}:data", **given}
    with pytest.raises(pipesched.RankFailed) as error:
        train(
            "interleaved", f"{GPT}:{model}", problem=problem(), steps=2, listener=lambda step, _: heard.append(step),
            **options,
        )  # fmt: skip
    assert re.fullmatch(message, str(error.value))
    assert heard == [*range(steps)]
    assert "Traceback (most recent call last):" in error.value.trace


@pytest.mark.parametrize(
    ("schedule", "given", "message"),
    [
        ("1f1b", {}, "problem: is missing: what 1f1b schedules"),
        (pipesched.run(problem(), "naive"), {"problem": problem()}, "problem: goes with an algorithm or a CSV"),
        ("no.csv", {"problem": problem()}, "schedule: cannot read"),
        (pipesched.run(problem(), "naive"), {"data": lambda *_: None}, "data: must stand at the top of a module"),
    ],
)
def test_what_cannot_be_trained(schedule: Any, given: dict[str, Any], message: str) -> None:
    """A ConfigError that names the parameter."""
    from pipesched.runtime import train

    with pytest.raises(pipesched.ConfigError) as error:
        train(schedule, f"{GPT}:untied", **given)
    assert str(error.value).startswith(message)


def alone(
    rows: Sequence[int], weights: Any = None, algorithm: str = "interleaved", steps: int = 1
) -> tuple[Any, Any, Any]:
    """The losses of a runtime of one device, its gradients, and those of plain PyTorch."""
    import torch

    from pipesched.runtime import Runtime
    from pipesched.runtime.training_data import Microbatches
    from pipesched.runtime.unpipelined import batch, blocks, loss_of, train_unpipelined

    schedule = pipesched.run(pipesched.make_problem(devices=1, stages=2, microbatches=len(rows)), algorithm)
    ours, theirs = (blocks(2, torch.float64) for _ in range(2))
    for module in (*ours, *theirs):
        module.eval()
    given = batch(len(rows), torch.float64, [(one,) for one in rows])
    run = Runtime(schedule, dict(enumerate(ours)), loss_of)
    for step in range(steps):
        losses = run.step(given.inputs, given.targets, weights)
        counts = None if weights is None else [float(one) for one in weights]
        right = train_unpipelined(theirs, Microbatches(given.inputs, given.targets, counts), step)
    assert losses == dict(enumerate(right))
    mine, plain = ([weight.grad for module in found for weight in module.parameters()] for found in (ours, theirs))
    return losses, mine, plain


@pytest.mark.parametrize("weights", [None, [0.5, -2, 0], (Fraction(1, 3), 1e-300, 1e9)])
@pytest.mark.parametrize("algorithm", ["interleaved", "zb-v"])
def test_weights(algorithm: str, weights: Any) -> None:
    """Losses come back as they are; the gradient is that of their weighted sum, by default the plain one."""
    _, ours, theirs = alone([3, 1, 2], weights, algorithm, steps=2)
    assert all(one.equal(two) for one, two in zip(ours, theirs, strict=True))


def test_rows_make_the_mean_over_all() -> None:
    """With the parts of all rows as weights the gradient is that of one batch with all rows."""
    import torch

    from pipesched.runtime.unpipelined import batch, blocks, loss_of

    rows = [3, 1, 2]
    _, ours, _ = alone(rows, [one / 6 for one in rows])
    given, modules = batch(3, torch.float64, [(one,) for one in rows]), blocks(2, torch.float64)
    model = torch.nn.Sequential(*modules).eval()
    loss_of(model(torch.cat(given.inputs)), torch.cat(given.targets)).backward()
    for one, weight in zip(ours, model.parameters(), strict=True):
        assert one.sub(weight.grad).abs().max() < 1e-15


@pytest.mark.parametrize("kind", ["tensor", "numpy", "scalars", "mapping"])
def test_weights_in_tensors(kind: str) -> None:
    """Weights may stand in a tensor or an array, be tensors of one element, or a mapping as losses are."""
    import torch

    from pipesched.runtime.training_data import loss_weights

    tensor = torch.tensor([0.5, 2])
    given = {"tensor": tensor, "numpy": tensor.numpy(), "scalars": [*tensor], "mapping": {1: 2, 0: 0.5}}[kind]
    assert loss_weights(given, 2) == [0.5, 2]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (3, "weights: must hold one entry for each of the 2 microbatches, not 3"),
        ({0: 1, "1": 2}, "weights[1]: must be a finite number, not null"),
        ([1, float("nan")], "weights[1]: must be a finite number, not nan"),
        ([True, 1], "weights[0]: must be a finite number, not true"),
        ([[1, 2], [3, 4]], "weights[0]: must be a finite number, not [1, 2]"),
    ],
)
def test_what_is_no_weight(weights: Any, message: str) -> None:
    """A ConfigError that names the entry."""
    from pipesched.runtime.training_data import loss_weights

    with pytest.raises(ConfigError) as error:
        loss_weights(weights, 2)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([8, 4, 2], "rows: must hold one entry for each of the 2 microbatches, not 3"),
        (8, "rows: must hold one entry for each of the 2 microbatches, not 8"),
        ([8, 0], "rows[1]: must be a whole number of at least 1, not 0"),
    ],
)
def test_what_are_no_rows(rows: Any, message: str) -> None:
    """`train` refuses them before it starts a process."""
    from pipesched.runtime import train

    with pytest.raises(ConfigError) as error:
        train("1f1b", problem=pipesched.make_problem(devices=2, microbatches=2), rows=rows)
    assert str(error.value) == message
