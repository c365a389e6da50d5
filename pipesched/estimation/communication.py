"""Communication of a rank: inside a layer, between stages, and once a step. In milliseconds, what nothing hides."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from pipesched.estimation.memory import state_bytes
from pipesched.estimation.model import Experts
from pipesched.estimation.setup import Setup
from pipesched.estimation.terms import COMMUNICATION, MESSAGES, PER_MS, Term, Terms
from pipesched.pipeline.placement import Placement

FORWARD = "forward"
DISPATCH_AND_COMBINE = "dispatch and combine"
HALF = 2  # bytes of a 16-bit number


def tensor_terms(setup: Setup, operation: str, *, experts: bool = False) -> Iterable[Term]:
    """Yield the tensor-parallel communication of a layer: two all-reduces, or as much by sequence parallelism.

    Attention and the MLP have one each, a layer of experts that all tensor ranks run only that of attention.
    """
    t, model = setup.parallel.tensor, setup.model
    if t == 1:
        return
    shared = model.experts is not None and model.experts.shared > 0
    halves = 2 if not experts or shared else 1
    sent = halves * 2 * HALF * setup.tokens * model.hidden * (t - 1) / t
    if setup.parallel.sequence and operation != FORWARD:
        sent *= 1.5  # inputs are gathered again
    exposed = setup.hardware.efficiency.tensor_exposed if setup.training.tensor_overlap else 1.0
    yield _ring(setup, "tensor-parallel communication", sent, t, exposed=exposed)


def context_terms(setup: Setup, operation: str, core: float) -> Iterable[Term]:
    """Yield the part of the ring of keys and values that is longer than the attention core (`core`)."""
    c = setup.parallel.context
    if c == 1:
        return
    model = setup.model
    width = model.key if model.latent is None else model.heads * (model.latent.nope + model.latent.rope)
    sent = (c - 1) * 2 * HALF * setup.tokens * width / setup.parallel.tensor * (1 if operation == FORWARD else 2)
    whole = _ring(setup, "ring of keys and values", sent, c, apart=setup.parallel.tensor)
    longer = max(float(whole.value) - core, 0.0)
    yield whole._replace(value=longer, formula=f"{whole.formula} - {core:.3f} ms of attention, at least 0")


def expert_terms(setup: Setup) -> Iterable[Term]:
    """Yield dispatch and combine of the tokens of experts, and their sum over the tensor ranks of an expert."""
    e, mixture = setup.parallel.expert, setup.model.experts
    if mixture is None:
        return
    own = HALF * setup.tokens / setup.parallel.tensor * setup.model.hidden  # the tokens of a rank
    if e > 1:
        yield _dispatch(setup, mixture, own)
    apart = setup.parallel.expert_tensor
    if apart > 1:
        gathered = 2 * own * mixture.active * (apart - 1)  # gather before the experts, reduce and scatter after them
        yield _ring(setup, "tensor-parallel communication of experts", gathered, apart)


def _dispatch(setup: Setup, mixture: Experts, own: float) -> Term:
    """Return dispatch and combine: a token goes once to each node, and there once to each rank that runs it."""
    e, node = setup.parallel.expert, setup.hardware.neighbours
    inside = min(e, max(1, node // setup.parallel.expert_tensor))
    nodes = -(-e // inside)
    ways = 2 * own
    return _exchange(
        setup,
        DISPATCH_AND_COMBINE,
        over_links=ways * _others(e, mixture.active) * (inside - 1) / inside * (e / (e - 1)),
        over_network=ways * _others(nodes, mixture.active),
    )


def _others(groups: int, active: int) -> float:
    """Return how many other groups a token goes to, of `groups` among which its experts are spread at random."""
    return (groups - 1) * (1 - (1 - 1 / groups) ** active)


def message_terms(setup: Setup) -> Iterable[Term]:
    """Yield a layer's share of the time that messages between stages hold GPUs up, which all layers share."""
    stages, layers = setup.parallel.stages, setup.model.layers
    latency = setup.hardware.efficiency.latency
    if setup.parallel.pipeline > 1 and latency:
        text = f"{latency:g} ms x {stages} stages / {layers} layers"
        yield Term(MESSAGES, latency * stages / layers, text, MESSAGES)


def boundary_time(setup: Setup, *, across: bool) -> Term:
    """Return the time of a message between stages, on its way; `across` nodes or inside one."""
    sent = HALF * setup.tokens * setup.model.hidden / setup.parallel.spread
    return _message(setup, "p2p", sent, across=across)


def boundary_times(setup: Setup, placement: Placement) -> list[Fraction]:
    """Return the milliseconds of each boundary between stages, whole microseconds.

    The ranks of a device of the pipeline follow each other, and those of the next device follow them (Megatron-LM's
    default order: tensor, context, data, pipeline).
    """
    times = {across: float(boundary_time(setup, across=across).value) for across in (False, True)}
    return [
        Fraction(round(times[is_across(setup, here, there)] * PER_MS), PER_MS)
        for here, there in zip(placement.devices, placement.devices[1:], strict=False)
    ]


def is_across(setup: Setup, here: int, there: int) -> bool:
    """Return whether any GPU of a device sends to another node, when it sends to its peer in another device."""
    ranks, node = setup.parallel.gpus // setup.parallel.pipeline, setup.hardware.neighbours
    return any((here * ranks + rank) // node != (there * ranks + rank) // node for rank in (0, ranks - 1))


def data_terms(setup: Setup, dense: Fraction, experts: Fraction) -> Terms:
    """Return the exposed part of data-parallel communication: of `dense` parameters of a rank, and of its `experts`.

    Gradients are reduced and scattered, and parameters gathered; without the distributed optimizer, gradients are
    gathered again. In milliseconds.
    """
    parallel = setup.parallel
    expert_ranks = parallel.expert * parallel.expert_tensor
    gradient = state_bytes(setup.training).gradient
    each = gradient + (HALF if setup.training.distributed_optimizer else gradient)
    terms = []
    for name, count, ranks, apart in (
        ("gradients and parameters", dense, parallel.data * parallel.context, parallel.tensor),
        ("gradients and parameters of experts", experts, parallel.expert_data, expert_ranks),
    ):
        if ranks > 1 and count:
            sent = float(count) * each * (ranks - 1) / ranks
            exposed = setup.hardware.efficiency.data_exposed
            terms.append(_ring(setup, name, sent, ranks, apart=apart, exposed=exposed))
    return tuple(terms)


def _ring(setup: Setup, name: str, sent: float, ranks: int, *, apart: int = 1, exposed: float = 1.0) -> Term:
    """Return the time of bytes that a rank sends around a ring of `ranks`, `apart` GPUs from each other.

    Between nodes the network cards of all ranks of the ring in a node carry it side by side. `exposed` is the part that
    nothing hides.
    """
    hardware = setup.hardware
    link, rate = "link in the node", hardware.inside
    if ranks * apart > hardware.neighbours:
        cards = max(1, hardware.neighbours // apart)
        link = "network" if cards == 1 else f"network of {cards} cards,"
        rate = min(rate, hardware.nic * cards)
    return _sent(setup, name, sent, link, rate, exposed)


def _exchange(setup: Setup, name: str, *, over_links: float, over_network: float) -> Term:
    """Return the time of bytes that a rank sends to all others, over both kinds of links: the longer one's."""
    hardware = setup.hardware
    inside = _sent(setup, name, over_links, "link in the node", hardware.inside)
    across = _sent(setup, name, over_network, "network", hardware.nic)
    return max(inside, across, key=lambda term: term.value)


def _message(setup: Setup, name: str, sent: float, *, across: bool) -> Term:
    """Return the time of bytes that a rank sends to one other; `across` nodes or inside one."""
    hardware = setup.hardware
    link, rate = ("network", hardware.nic) if across else ("link in the node", hardware.inside)
    return _sent(setup, name, sent, link, rate)


def _sent(setup: Setup, name: str, sent: float, link: str, rate: float, exposed: float = 1.0) -> Term:
    share = setup.hardware.efficiency.network
    part = "" if exposed == 1 else f" x {exposed:.3g} exposed"
    formula = f"{sent / 1e6:.6g} MB / ({link} {rate:g} GB/s x {share:.3g}){part}"
    return Term(name, sent / (rate * share) * 1e-6 * exposed, formula, COMMUNICATION)
