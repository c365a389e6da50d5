"""What a rank spends on messages, in milliseconds: inside a layer, between stages, and for gradients and parameters.

In a layer are `tensor_terms` and `expert_terms`, between stages `hop_times`, and once a step `data_terms`; with `shard`
`gather_terms` and `reduce_terms`. Each says how many bytes a rank sends, and to whom; terms.py says what these take.
Numbers have 16 bits, or fewer by a recipe. Of n ranks each sends (n - 1) / n of what all of them share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import partial
from itertools import repeat

from pipesched.estimation.hardware import FULL_BYTES
from pipesched.estimation.memory import state_bytes
from pipesched.estimation.setup import ALLGATHER, ALLTOALL, Setup, ShardGroup
from pipesched.estimation.terms import (
    MESSAGES,
    PER_MS,
    Term,
    Terms,
    collective_time,
    link_time,
    message_time,
    ring_time,
)
from pipesched.pipeline.plan.step import NOTHING
from pipesched.pipeline.problem.placement import Placement

FORWARD = "forward"
DISPATCH_AND_COMBINE = "dispatch and combine"


def tensor_terms(setup: Setup, operation: str, *, experts: bool = False) -> Iterable[Term]:
    """Yield the tensor-parallel communication of a layer: two all-reduces, or as much by sequence parallelism.

    Attention and the MLP have one each, a layer of experts that all tensor ranks run only that of attention.
    """
    ranks, model = setup.parallel.tensor, setup.model
    if ranks == 1:
        return
    shared = model.experts is not None and model.experts.shared > 0
    halves = bool(model.heads or model.mixer) + bool(shared if experts else model.ffn)
    sent = halves * 2 * FULL_BYTES * setup.tokens * model.hidden * (ranks - 1) / ranks
    gathers = 1 if operation == FORWARD else 2  # beside as large a reduction; inputs are gathered again
    if setup.parallel.sequence and setup.recipe is not None:
        sent *= (1 + gathers * float(setup.recipe.each) / FULL_BYTES) / 2  # what is gathered is in low precision
    elif setup.parallel.sequence and operation != FORWARD:
        sent *= 1.5
    exposed = setup.hardware.efficiency.tensor_exposed if setup.training.tensor_overlap else 1.0
    yield collective_time(setup, "tensor-parallel communication", sent, ranks, exposed=exposed)


def expert_terms(setup: Setup, operation: str = FORWARD) -> Iterable[Term]:
    """Yield dispatch and combine of the tokens of experts, and their sum over the tensor ranks of an expert."""
    parallel, mixture = setup.parallel, setup.model.experts
    if mixture is None:
        return
    own = FULL_BYTES * setup.tokens / parallel.tensor * (mixture.latent or setup.model.hidden)  # the tokens of a rank
    few = setup.recipe if operation == FORWARD else None  # gradients go in 16 bits
    if parallel.expert > 1:
        sent = (2 if few is None else 1 + float(few.dispatched) / FULL_BYTES) * own  # there and back
        yield _dispatched(setup, mixture.active, sent)
    apart = parallel.expert_tensor
    if apart > 1:
        gathered = 2 * own * mixture.active * (apart - 1)  # gather before the experts, reduce and scatter after them
        yield collective_time(setup, "tensor-parallel communication of experts", gathered, apart)


def _dispatched(setup: Setup, active: int, sent: float) -> Term:
    """Return the time of the tokens of a rank to their `active` experts: once to a node, and there to each rank."""
    hardware, ranks, apart = setup.hardware, setup.parallel.expert, setup.parallel.expert_tensor
    inside = min(ranks, max(1, setup.neighbours // apart))
    nodes = -(-ranks // inside)
    if setup.training.dispatcher == ALLGATHER:
        return collective_time(setup, DISPATCH_AND_COMBINE, sent * (ranks - 1), ranks, apart=apart)
    if setup.training.dispatcher == ALLTOALL:
        copies = sent * active / ranks
        over_links, across = copies * (inside - 1), copies * (ranks - inside)
    else:  # to how many other ranks, and nodes, a token goes whose experts are spread among them at random
        others, abroad = ((groups - 1) * (1 - (1 - 1 / groups) ** active) for groups in (ranks, nodes))
        over_links, across = sent * others * (inside - 1) / inside * (ranks / (ranks - 1)), sent * abroad
    links = link_time(setup, DISPATCH_AND_COMBINE, over_links, "link in the node", hardware.inside)
    network = link_time(setup, DISPATCH_AND_COMBINE, across, "network", hardware.outside)
    return max(links, network, key=lambda term: term.value)  # both at once


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
    sent = FULL_BYTES * setup.tokens * model.hidden * model.streams * copies / setup.parallel.spread
    return message_time(setup, "p2p", sent, across=across)


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
    return 0.0 if setup.recipe is None else float(low * (FULL_BYTES - setup.recipe.gathered))


def data_terms(setup: Setup, dense: Fraction, experts: Fraction, low: Fraction = Fraction(0)) -> Terms:
    """Return the exposed part of data-parallel communication: of `dense` parameters of a rank, and of its `experts`.

    Gradients are reduced and scattered, and parameters gathered; without the distributed optimizer, gradients are
    gathered again. Of dense parameters the weights of `low` are in low precision.
    """
    shared, gradient = setup.training.distributed_optimizer, state_bytes(setup.training).gradient
    exposed, terms = setup.hardware.efficiency.data_exposed, list[Term]()
    for name, count, (ranks, _, apart) in setup.shard_parts(dense, experts):  # name: "", or " of experts"
        if ranks > 1:
            spread = partial(collective_time, setup, ranks=ranks, apart=apart, exposed=exposed)
            each = float(count) * (ranks - 1) / ranks
            terms.append(spread(f"gradients{name}", each * (gradient if shared else 2 * gradient)))
            if shared:
                sent = each * FULL_BYTES - saved_bytes(setup, experts if name else low) * (ranks - 1) / ranks
                terms.append(spread(f"parameters{name}", sent, gathers=True))
    return tuple(terms)


def gather_terms(setup: Setup, dense: Fraction, experts: Fraction, low: Fraction = Fraction(0)) -> Terms:
    """Return the gather of the weights of a rank, those of `low` and of experts in low precision; none undivided."""
    if setup.training.level == NOTHING:
        return ()
    each, terms = state_bytes(setup.training).weight, []
    for name, count, group in setup.shard_parts(dense, experts):
        if group.ranks > 1:
            less = saved_bytes(setup, experts if name else low)
            sent = (each * float(count) - less) * (group.ranks - 1) / group.ranks
            terms.append(ring_time(setup, f"weights{name}", sent, group, gathers=True))
    return tuple(terms)


def reduce_terms(setup: Setup, dense: Fraction, experts: Fraction) -> Terms:
    """Return the reduction of the gradients of a rank: in groups, around their replicas, and gathered if undivided."""
    each, terms, is_whole = state_bytes(setup.training).gradient, list[Term](), setup.training.level == NOTHING
    for name, count, group in setup.shard_parts(dense, experts):
        replicas, own = ShardGroup(group.replicas, 1, group.apart * group.ranks), each * float(count)
        terms += _summed(setup, f"gradients{name}", own, group, gathered=is_whole)
        terms += _summed(setup, f"gradients{name} of replicas", own / group.ranks, replicas, gathered=True)
    return tuple(terms)


def _summed(setup: Setup, name: str, size: float, group: ShardGroup, *, gathered: bool) -> Iterator[Term]:
    """Yield the sum of so many bytes over a group, of which each rank has a part, unless they are gathered again."""
    if group.ranks > 1:
        sent = size * (group.ranks - 1) / group.ranks
        yield ring_time(setup, name, sent, group)
        if gathered:
            yield ring_time(setup, f"{name}, gathered again", sent, group)


def tied_terms(setup: Setup, placement: Placement) -> Terms:
    """Return the message of the gradients of a vocabulary that the first and the last stage hold, where both do."""
    first, last = placement.devices[0], placement.devices[-1]
    if not setup.model.tied or first == last:
        return ()
    each = state_bytes(setup.training).gradient
    sent = each * setup.padded_vocabulary * setup.model.hidden / setup.parallel.tensor
    return (message_time(setup, "tied gradients", sent, across=is_across(setup, first, last)),)
