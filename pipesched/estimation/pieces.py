"""The pieces of an item, of which a pair F&B runs compute and network at once: dispatch and combine of experts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

from pipesched.core.bounds import JobPiece
from pipesched.estimation.communication import DISPATCH_AND_COMBINE
from pipesched.estimation.terms import AGAIN, PER_MS, RECOMPUTE, Term, Terms, total
from pipesched.estimation.times import ItemTimes

MACHINES = ("of compute", "of network")  # of a rank
COMPUTE, NETWORK = range(2)
ATTENTION, DISPATCH, EXPERTS, COMBINE, HEAD = FORTH = ("attention", "dispatch", "experts", "combine", "head")
OWNERS: dict[str, tuple[str, ...]] = {  # a term of a layer with experts: the pieces that have equal parts of it
    DISPATCH_AND_COMBINE: (DISPATCH, COMBINE),
    **dict.fromkeys(("experts up", "experts down", "shared experts up", "shared experts down"), (EXPERTS,)),
    "tensor-parallel communication of experts": (EXPERTS,),
    **dict.fromkeys(("elementwise", "numbers in few bits", "kernels", "waits for the host"), (ATTENTION, EXPERTS)),
    **dict.fromkeys(("head", "loss"), (HEAD,)),
}  # all others: attention
OWNERS |= {f"{AGAIN}{name}": pieces for name, pieces in OWNERS.items()}


class ItemPiece(NamedTuple):
    """A part of an operation: what it is, its machine, its microseconds, and the names of what it is the sum of."""

    name: str
    machine: int
    time: int
    formula: str

    @property
    def job(self) -> JobPiece:
        """The piece without words."""
        return JobPiece(self.machine, self.time)


class ItemPieces(NamedTuple):
    """The pieces of a forward, of a backward (the forward turned round), and of a forward again, in their order."""

    forward: tuple[ItemPiece, ...]
    backward: tuple[ItemPiece, ...]

    @property
    def again(self) -> tuple[ItemPiece, ...]:
        """The forward once more."""
        return tuple(piece._replace(name=f"{AGAIN}{piece.name}") for piece in self.forward)

    @property
    def jobs(self) -> tuple[tuple[JobPiece, ...], ...]:
        """The pieces of both without words."""
        return tuple(tuple(piece.job for piece in pieces) for pieces in self)

    @property
    def network(self) -> int:
        """The microseconds on the network, which a pair may hide."""
        return sum(piece.time for piece in (*self.forward, *self.backward) if piece.machine == NETWORK)


def item_pieces(kind: str, times: ItemTimes) -> ItemPieces:
    """Return the pieces of an item, which sum up to its times; one an operation without experts on other ranks."""
    has_network = any(term.name == DISPATCH_AND_COMBINE for term in times.forward)
    forth = FORTH if has_network else (kind,)
    back = forth[::-1]
    again = [term for term in times.backward_input if term.kind == RECOMPUTE]
    own = [term for term in times.backward_input if term.kind != RECOMPUTE]
    inputs = _pieces([*_parts(forth, again, AGAIN), *_parts(back, own, "gradient of ")], times.backward_input)
    weights = _pieces(_parts(back, times.backward_weight, "weights of "), times.backward_weight)
    turned = zip(inputs[len(forth) :], weights, strict=True)
    forward = _pieces(_parts(forth, times.forward), times.forward)
    return ItemPieces(_some(forward), _some((*inputs[: len(forth)], *chain.from_iterable(turned))))


def _some(pieces: Iterable[ItemPiece]) -> tuple[ItemPiece, ...]:
    return tuple(piece for piece in pieces if piece.time)


class _Part(NamedTuple):
    """A piece before its time is rounded: milliseconds."""

    name: str
    machine: int
    value: float
    formula: str


def _parts(names: Sequence[str], terms: Iterable[Term], prefix: str = "") -> list[_Part]:
    """Return the parts of these names, in their order, among which terms are divided; a single one has them all."""
    shares: dict[str, list[tuple[Term, int]]] = {name: [] for name in names}
    for term in terms:
        owners = OWNERS.get(term.name, (ATTENTION,)) if len(names) > 1 else names
        for owner in owners:
            shares[owner].append((term, len(owners)))
    return [
        _Part(
            f"{prefix}{name}",
            NETWORK if name in (DISPATCH, COMBINE) else COMPUTE,
            sum(float(term.value) / count for term, count in own),
            " + ".join(term.name if count == 1 else f"{term.name} / {count}" for term, count in own),
        )
        for name, own in shares.items()
    ]


def _pieces(parts: Sequence[_Part], terms: Terms) -> tuple[ItemPiece, ...]:
    """Return the parts of an operation in whole microseconds that sum up to those of all its terms."""
    whole = round(float(total(terms)) * PER_MS)
    ends = [min(round(value * PER_MS), whole) for value in accumulate(part.value for part in parts)]
    ends[-1] = whole
    return tuple(
        ItemPiece(part.name, part.machine, end - begin, part.formula)
        for part, begin, end in zip(parts, (0, *ends), ends, strict=False)
    )
