"""What a step is given: shapes that change from step to step, weights of any sign, and what is no weight."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

import pipesched
from pipesched.errors import ConfigError
from tests.torch_ranks import needs_torch

pytestmark = needs_torch


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


@pytest.mark.parametrize("weights", [None, [1, 1, 1], [0.5, -2, 0], (Fraction(1, 3), 1e-300, 1e9)])
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
        ([1], "weights: must hold one entry for each of the 2 microbatches, not 1"),
        (3, "weights: must hold one entry for each of the 2 microbatches, not 3"),
        ({1, 2}, "weights: must hold one entry for each of the 2 microbatches, not {1, 2}"),
        ({0: 1, "1": 2}, "weights[1]: must be a finite number, not null"),
        ([1, float("nan")], "weights[1]: must be a finite number, not nan"),
        ([float("-inf"), 1], "weights[0]: must be a finite number, not -inf"),
        ([1, "2"], "weights[1]: must be a finite number, not '2'"),
        ([1, None], "weights[1]: must be a finite number, not null"),
        ([True, 1], "weights[0]: must be a finite number, not true"),
        ([10**400, 1], "weights[0]: must be a finite number, not 1e+400"),
        ([[1, 2], [3, 4]], "weights[0]: must be a finite number, not [1, 2]"),
    ],
)
def test_what_is_no_weight(weights: Any, message: str) -> None:
    """A ConfigError that names the entry."""
    from pipesched.runtime.training_data import loss_weights

    with pytest.raises(ConfigError) as error:
        loss_weights(weights, 2)
    assert str(error.value) == message


def test_a_tensor_of_no_dimension_is_no_list_of_weights() -> None:
    """It has no length to compare."""
    import torch

    from pipesched.runtime.training_data import loss_weights

    with pytest.raises(ConfigError, match=r"^weights: must hold one entry for each of the 2 microbatches, not tensor"):
        loss_weights(torch.tensor(3.0), 2)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([8], "rows: must hold one entry for each of the 2 microbatches, not 1"),
        ([8, 4, 2], "rows: must hold one entry for each of the 2 microbatches, not 3"),
        (8, "rows: must hold one entry for each of the 2 microbatches, not 8"),
        ([8, 0], "rows[1]: must be a whole number of at least 1, not 0"),
        ([8, 1.5], "rows[1]: must be a whole number of at least 1, not 1.5"),
        (["8", 4], "rows[0]: must be a whole number of at least 1, not '8'"),
    ],
)
def test_what_are_no_rows(rows: Any, message: str) -> None:
    """`train` refuses them before it starts a process."""
    from pipesched.runtime import train

    with pytest.raises(ConfigError) as error:
        train("1f1b", problem=pipesched.make_problem(devices=2, microbatches=2), rows=rows)
    assert str(error.value) == message
