"""What parameters hold on a rank: weights, gradients and the optimizer's numbers. In bytes, exact."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from pipesched.estimation.parameters import LayerParameters
from pipesched.estimation.setup import BF16, FP16, FP32, Setup, TrainingSetup
from pipesched.estimation.terms import Term, Terms

EXPERTS = "experts"  # the name of the part that expert parallelism divides


class StateBytes(NamedTuple):
    """Bytes of a parameter with Adam: weights and gradients, and the optimizer's, of which ranks may share the last."""

    weight: int
    gradient: int
    optimizer: int

    @property
    def all(self) -> int:
        """All of them."""
        return self.weight + self.gradient + self.optimizer


STATES = {  # (precision, main gradients): mixed precision keeps a 32-bit copy of the weights with the optimizer
    (BF16, FP32): StateBytes(2, 4, 12),
    (BF16, BF16): StateBytes(2, 2, 12),
    (FP16, FP16): StateBytes(2, 2, 16),
    (FP32, FP32): StateBytes(4, 4, 8),
}


class States(NamedTuple):
    """The parameters of a rank, and the bytes of their weights, their gradients and the optimizer's numbers."""

    parameters: Terms
    weights: Terms
    gradients: Terms
    optimizer: Terms


def state_bytes(training: TrainingSetup) -> StateBytes:
    """Return the bytes of a parameter's states; main gradients may have a precision of their own beside bf16."""
    return STATES[training.precision, training.gradients if training.precision == BF16 else training.precision]


def states(setup: Setup, held: LayerParameters) -> States:
    """Return what a rank holds for some parameters, part by part: split, whole and of experts."""
    each = state_bytes(setup.training)
    parts = tuple(part for part in _parts(setup, held) if part.all)
    return States(
        parameters=tuple(Term(part.name, part.mine, part.text, part.name) for part in parts),
        weights=_bytes(parts, each.weight),
        gradients=_bytes(parts, each.gradient),
        optimizer=_bytes(parts, each.optimizer, shared=setup.training.distributed_optimizer),
    )


class _ParameterShare(NamedTuple):
    """Parameters that so many ranks share, and whose optimizer so many others share."""

    name: str
    all: int
    ranks: int
    data: int

    @property
    def mine(self) -> Fraction:
        return Fraction(self.all, self.ranks)

    @property
    def text(self) -> str:
        return f"{self.all}" if self.ranks == 1 else f"{self.all} / {self.ranks} ranks"


def _parts(setup: Setup, held: LayerParameters) -> tuple[_ParameterShare, ...]:
    parallel = setup.parallel
    data = parallel.data * parallel.context
    return (
        _ParameterShare("split over tensor ranks", held.split, parallel.tensor, data),
        _ParameterShare("whole on each tensor rank", held.whole, 1, data),
        _ParameterShare(EXPERTS, held.expert, parallel.expert * parallel.expert_tensor, parallel.expert_data),
    )


def _bytes(parts: tuple[_ParameterShare, ...], each: int, *, shared: bool = False) -> Terms:
    """Return the bytes of parts; `shared`: the ranks that hold the same parameters divide them among them."""
    terms = []
    for part in parts:
        ranks = part.data if shared else 1
        text = f"{part.text} x {each} bytes" + (f" / {ranks} data-parallel ranks" if ranks > 1 else "")
        terms.append(Term(part.name, part.mine * each / ranks, text))
    return tuple(terms)
