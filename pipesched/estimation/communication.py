"""What a rank spends beside its products, in milliseconds: messages, memory traffic and kernels."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from itertools import repeat

from pipesched.estimation.memory import state_bytes
from pipesched.estimation.model import Experts
from pipesched.estimation.setup import ALLGATHER, ALLTOALL, Setup, ShardGroup
from pipesched.estimation.terms import COMMUNICATION, LAUNCHES, MESSAGES, PER_MS, TRAFFIC, Term, Terms
from pipesched.pipeline.problem.placement import Placement

FORWARD = "forward"
DISPATCH_AND_COMBINE = "dispatch and combine"
HALF = 2  # bytes of a 16-bit number
WIDE = 32  # nodes from which on a gather reaches only a share of the rate of an all-reduce (NCCL issue 1218)
GATHERED = 0.6  # that share
HOP_NVLINK, HOP_PCIE, HOP_NETWORK = 3.4, 5.7, 14.0  # us a hop, as NCCL's own model has them (src/graph/tuning.cc, ring)


def tensor_terms(setup: Setup, operation: str, *, experts: bool = False) -> Iterable[Term]:
    """Yield the tensor-parallel communication of a layer: two all-reduces, or as much by sequence parallelism.

    Attention and the MLP have one each, a layer of experts that all tensor ranks run only that of attention.
    """
    t, model = setup.parallel.tensor, setup.model
    if t == 1:
        return
    shared = model.experts is not None and model.experts.shared > 0
    halves = bool(model.heads or model.mixer) + bool(shared if experts else model.ffn)
    sent = halves * 2 * HALF * setup.tokens * model.hidden * (t - 1) / t
    gathers = 1 if operation == FORWARD else 2  # beside as large a reduction; inputs are gathered again
    if setup.parallel.sequence and setup.recipe is not None:
        sent *= (1 + gathers * float(setup.recipe.each) / HALF) / 2  # what is gathered is in low precision
    elif setup.parallel.sequence and operation != FORWARD:
        sent *= 1.5
    exposed = setup.hardware.efficiency.tensor_exposed if setup.training.tensor_overlap else 1.0
    yield across_ranks(setup, "tensor-parallel communication", sent, t, exposed=exposed)


def expert_terms(setup: Setup, operation: str = FORWARD) -> Iterable[Term]:
    """Yield dispatch and combine of the tokens of experts, and their sum over the tensor ranks of an expert."""
    e, mixture = setup.parallel.expert, setup.model.experts
    if mixture is None:
        return
    own = HALF * setup.tokens / setup.parallel.tensor * (mixture.latent or setup.model.hidden)  # the tokens of a rank
    if e > 1:
        few = setup.recipe if operation == FORWARD else None  # gradients go in 16 bits
        yield _dispatch(setup, mixture, own, 2 if few is None else 1 + float(few.dispatched) / HALF)
    apart = setup.parallel.expert_tensor
    if apart > 1:
        gathered = 2 * own * mixture.active * (apart - 1)  # gather before the experts, reduce and scatter after them
        yield across_ranks(setup, "tensor-parallel communication of experts", gathered, apart)


def _dispatch(setup: Setup, mixture: Experts, own: float, times: float) -> Term:
    """Return dispatch and combine of `times` the tokens of a rank: once to a node, and there to each rank."""
    hardware, e = setup.hardware, setup.parallel.expert
    inside = min(e, max(1, setup.neighbours // setup.parallel.expert_tensor))
    nodes, ways = -(-e // inside), times * own
    if setup.training.dispatcher == ALLGATHER:
        return across_ranks(setup, DISPATCH_AND_COMBINE, ways * (e - 1), e, apart=setup.parallel.expert_tensor)
    if setup.training.dispatcher == ALLTOALL:
        copies = ways * mixture.active / e
        over_links, across = copies * (inside - 1), copies * (e - inside)
    else:
        over_links = ways * _others(e, mixture.active) * (inside - 1) / inside * (e / (e - 1))
        across = ways * _others(nodes, mixture.active)
    links = _sent(setup, DISPATCH_AND_COMBINE, over_links, "link in the node", hardware.inside)
    network = _sent(setup, DISPATCH_AND_COMBINE, across, "network", hardware.outside)
    return max(links, network, key=lambda term: term.value)  # both at once


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


def boundary_time(setup: Setup, *, across: bool, copies: int = 1) -> Term:
    """Return the time of a message between stages, on its way; `across` nodes or inside one.

    It has the hidden states of all streams, and behind MTP layers those of each: `copies` (Megatron-LM sends them all).
    """
    model = setup.model
    sent = HALF * setup.tokens * model.hidden * model.streams * copies / setup.parallel.spread
    return _message(setup, "p2p", sent, across=across)


def boundary_times(setup: Setup, placement: Placement, copies: Iterable[int] = repeat(1)) -> list[Fraction]:
    """Return the milliseconds of each boundary between stages, of so many copies, whole microseconds."""
    return hop_times(setup, zip(placement.devices, placement.devices[1:], strict=False), copies)


def hop_times(setup: Setup, hops: Iterable[tuple[int, int]], copies: Iterable[int] = repeat(1)) -> list[Fraction]:
    """Return the milliseconds of messages from devices to others, whose ranks lie in Megatron-LM's default order."""
    kinds = [(is_across(setup, *hop), count) for hop, count in zip(hops, copies, strict=False)]
    times = {kind: boundary_time(setup, across=kind[0], copies=kind[1]).value for kind in {*kinds}}
    return [Fraction(round(float(times[kind]) * PER_MS), PER_MS) for kind in kinds]


def is_across(setup: Setup, here: int, there: int) -> bool:
    """Return whether any GPU of a device sends to another node, when it sends to its peer in another device."""
    ranks, node = setup.parallel.gpus // setup.parallel.pipeline, setup.neighbours
    return any((here * ranks + rank) // node != (there * ranks + rank) // node for rank in (0, ranks - 1))


def saved_bytes(setup: Setup, low: Fraction) -> float:
    """Return how many bytes less than in 16 bits ranks gather of so many weights in low precision."""
    return 0.0 if setup.recipe is None else float(low * (HALF - setup.recipe.gathered))


def data_terms(setup: Setup, dense: Fraction, experts: Fraction, low: Fraction = Fraction(0)) -> Terms:
    """Return the exposed part of data-parallel communication: of `dense` parameters of a rank, and of its `experts`.

    Gradients are reduced and scattered, and parameters gathered; without the distributed optimizer, gradients are
    gathered again. Of dense parameters the weights of `low` are in low precision. In milliseconds.
    """
    parallel, shared = setup.parallel, setup.training.distributed_optimizer
    expert_ranks, gradient = parallel.expert * parallel.expert_tensor, state_bytes(setup.training).gradient
    exposed = setup.hardware.efficiency.data_exposed
    terms = []
    for name, count, ranks, apart, few in (
        ("", dense, parallel.data * parallel.context, parallel.tensor, low),
        (" of experts", experts, parallel.expert_data, expert_ranks, experts),
    ):
        if ranks > 1 and count:
            spread = partial(across_ranks, setup, ranks=ranks, apart=apart, exposed=exposed)
            each = float(count) * (ranks - 1) / ranks
            terms.append(spread(f"gradients{name}", each * (gradient if shared else 2 * gradient)))
            if shared:
                sent = each * HALF - saved_bytes(setup, few) * (ranks - 1) / ranks
                terms.append(spread(f"parameters{name}", sent, gathers=True))
    return tuple(terms)


def around_ring(setup: Setup, name: str, sent: float, group: ShardGroup, *, gathers: bool = False) -> Term:
    """Return the time of bytes that each rank of a group sends around a ring of them, and of the hops on the way."""
    ranks, apart = group.ranks, group.apart
    term = across_ranks(setup, name, sent, ranks, apart=apart, gathers=gathers)
    nodes = -(-ranks // max(1, setup.neighbours // apart))
    hop = HOP_PCIE if setup.hardware.nvlink is None else HOP_NVLINK
    late, hops = 0.0, []
    for count, each in ((ranks - nodes, hop), (nodes - 1, HOP_NETWORK)):
        if count:
            late += count * each
            hops.append(f"{count} x {each:g} us")
    return term._replace(value=float(term.value) + late / PER_MS, formula=" + ".join([term.formula, *hops]))


def tied_terms(setup: Setup, placement: Placement) -> Terms:
    """Return the message of the gradients of a vocabulary that the first and the last stage hold, where both do."""
    first, last = placement.devices[0], placement.devices[-1]
    if not setup.model.tied or first == last:
        return ()
    each = state_bytes(setup.training).gradient
    sent = each * setup.padded_vocabulary * setup.model.hidden / setup.parallel.tensor
    return (_message(setup, "tied gradients", sent, across=is_across(setup, first, last)),)


def across_ranks(
    setup: Setup, name: str, sent: float, ranks: int, *, apart: int = 1, exposed: float = 1.0, gathers: bool = False
) -> Term:
    """Return the time of bytes in a collective, which all network cards of its ranks carry; `exposed` is not hidden.

    If it `gathers` over many nodes, it is slower than a reduction.
    """
    hardware = setup.hardware
    link, rate = "link in the node", hardware.inside
    if ranks * apart > setup.neighbours:
        ways = max(1, setup.neighbours // apart)
        link = "network" if ways == 1 else f"network of {ways} ranks,"
        rate = min(rate, hardware.outside * ways)
    term = _sent(setup, name, sent, link, rate, exposed)
    if not gathers or ranks * apart < WIDE * setup.neighbours:
        return term
    return term._replace(value=float(term.value) / GATHERED, formula=f"{term.formula} / {GATHERED:g} of many nodes")


def next_rank(setup: Setup, sent: float) -> Term:
    """Return the time of bytes that a rank sends to the next one that shares its sequence, a tensor rank to its like.

    In a ring over several nodes all wait for the edge between two of them: one network card, that of the sending rank,
    which its tensor ranks may share.
    """
    hardware, apart = setup.hardware, setup.parallel.tensor
    link, rate, hop = "link in the node", hardware.inside, HOP_PCIE if hardware.nvlink is None else HOP_NVLINK
    if setup.parallel.context * apart > setup.neighbours:
        card = hardware.nic / min(hardware.gpus_per_nic, apart)
        link, rate, hop = "network", min(rate, card), HOP_NETWORK
    term = _sent(setup, "message", sent, link, rate)
    return term._replace(value=float(term.value) + hop / PER_MS, formula=f"{term.formula} + {hop:g} us")


def _message(setup: Setup, name: str, sent: float, *, across: bool) -> Term:
    """Return the time of bytes that a rank sends to one other; `across` nodes or inside one."""
    hardware = setup.hardware
    link, rate = ("network", hardware.outside) if across else ("link in the node", hardware.inside)
    return _sent(setup, name, sent, link, rate)


def _sent(setup: Setup, name: str, sent: float, link: str, rate: float, exposed: float = 1.0) -> Term:
    share = setup.hardware.efficiency.network
    part = "" if exposed == 1 else f" x {exposed:.3g} exposed"
    formula = f"{sent / 1e6:.6g} MB / ({link} {rate:g} GB/s x {share:.3g}){part}"
    return Term(name, sent / (rate * share) * 1e-6 * exposed, formula, COMMUNICATION)


def moved(setup: Setup, name: str, size: float, kind: str = TRAFFIC) -> Term:
    """Return the time of bytes that are read and written."""
    hardware, share = setup.hardware, setup.hardware.efficiency.memory
    formula = f"{size / 1e6:.6g} MB / ({hardware.bandwidth:g} GB/s x {share:.3g})"
    return Term(name, size / (hardware.bandwidth * share) * 1e-6, formula, kind)


def kernels(setup: Setup, name: str, count: int) -> Term:
    """Return what so many kernels take beside their work."""
    each = setup.hardware.efficiency.kernel
    return Term(name, count * each * 1e-3, f"{count} x {each:g} us", LAUNCHES)
