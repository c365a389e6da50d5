"""What a rank does once a step, after its microbatches: gradients and parameters between data-parallel ranks, Adam."""

from __future__ import annotations

from fractions import Fraction

from pipesched.estimation.communication import HALF
from pipesched.estimation.links import ring
from pipesched.estimation.setup import Setup
from pipesched.estimation.states import state_bytes
from pipesched.estimation.terms import Term, Terms

ADAM_BYTES = 28  # read and written of a parameter: gradient, master weight, both moments, weight


def data_terms(setup: Setup, dense: Fraction, experts: Fraction) -> Terms:
    """Return the exposed part of data-parallel communication: of `dense` parameters of a rank, and of its `experts`.

    Gradients are reduced and scattered, and parameters gathered; without the distributed optimizer, gradients are
    gathered again. In milliseconds.
    """
    parallel = setup.parallel
    expert_ranks = parallel.expert * parallel.expert_tensor
    gradient = state_bytes(setup.training.precision, setup.training.gradients).gradient
    each = gradient + (HALF if setup.training.distributed_optimizer else gradient)
    terms = []
    for name, count, ranks, apart in (
        ("gradients and parameters", dense, parallel.data * parallel.context, parallel.tensor),
        ("gradients and parameters of experts", experts, parallel.expert_data, expert_ranks),
    ):
        if ranks > 1 and count:
            sent = float(count) * each * (ranks - 1) / ranks
            exposed = setup.hardware.efficiency.data_exposed
            terms.append(ring(setup, name, sent, ranks, apart=apart, exposed=exposed))
    return tuple(terms)


def optimizer_terms(setup: Setup, dense: Fraction, experts: Fraction) -> Terms:
    """Return the time of the optimizer over the parameters of a rank: memory traffic. In milliseconds."""
    parallel, hardware = setup.parallel, setup.hardware
    shared = setup.training.distributed_optimizer
    terms = []
    for name, count, ranks in (
        ("Adam", dense, parallel.data * parallel.context),
        ("Adam of experts", experts, parallel.expert_data),
    ):
        if count:
            mine = float(count) / (ranks if shared else 1)
            share = hardware.efficiency.memory
            of = f"{ADAM_BYTES} bytes x {mine / 1e6:.6g} M parameters"
            formula = f"{of} / ({hardware.bandwidth:g} GB/s x {share:.3g})"
            terms.append(Term(name, ADAM_BYTES * mine / (hardware.bandwidth * share) * 1e-6, formula))
    return tuple(terms)
