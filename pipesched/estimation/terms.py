"""Sums whose parts say where they come from, and the parts that all sums share: what bytes and kernels take on a GPU.

A part has a formula with its values. Times are milliseconds. A collective is among `ranks`, `apart` GPUs from each
other: within a node its bytes go over links, beyond it over all network cards of its ranks there.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from pipesched.estimation.setup import Setup, ShardGroup

PER_MS = 1000  # times are whole microseconds
PRODUCTS, ATTENTION, TRAFFIC = "matrix products", "attention", "memory traffic"
COMMUNICATION, MESSAGES = "communication in layers", "messages between stages"
LAUNCHES, RECOMPUTE = "kernels and launches", "recompute"
AGAIN = "again: "  # before the name of what is computed again
WIDE = 32  # nodes from which on a gather reaches only a share of the rate of an all-reduce (NCCL issue 1218)
GATHERED = 0.6  # that share
HOP_NVLINK, HOP_PCIE, HOP_NETWORK = 3.4, 5.7, 14.0  # us a hop, as NCCL's own model has them (src/graph/tuning.cc, ring)


class Term(NamedTuple):
    """A part of a sum: what it is, value, formula with values, what it counts as, and of how many things."""

    name: str
    value: float | Fraction
    formula: str
    kind: str = ""
    count: int = 1  # type: ignore[assignment]  # in place of tuple.count


Terms = tuple[Term, ...]


def total(terms: Iterable[Term]) -> float | Fraction:
    """Return the sum of the values."""
    return sum((term.value for term in terms), Fraction(0))


def recomputed(terms: Iterable[Term]) -> Terms:
    """Return the terms of what is computed again."""
    return tuple(term._replace(name=f"{AGAIN}{term.name}", kind=RECOMPUTE) for term in terms)


def kernel_time(setup: Setup, name: str, count: int) -> Term:
    """Return what so many kernels take beside their work."""
    each = setup.hardware.efficiency.kernel
    return Term(name, count * each * 1e-3, f"{count} x {each:g} us", LAUNCHES)


def traffic_time(setup: Setup, name: str, size: float, kind: str = TRAFFIC) -> Term:
    """Return the time of bytes that are read and written in the memory of a GPU."""
    hardware, share = setup.hardware, setup.hardware.efficiency.memory
    formula = f"{size / 1e6:.6g} MB / ({hardware.bandwidth:g} GB/s x {share:.3g})"
    return Term(name, size / (hardware.bandwidth * share) * 1e-6, formula, kind)


def link_time(setup: Setup, name: str, sent: float, link: str, rate: float, exposed: float = 1.0) -> Term:
    """Return the time of bytes over a link of so many GB/s, of which a part is `exposed`: nothing hides it."""
    share = setup.hardware.efficiency.network
    part = "" if exposed == 1 else f" x {exposed:.3g} exposed"
    formula = f"{sent / 1e6:.6g} MB / ({link} {rate:g} GB/s x {share:.3g}){part}"
    return Term(name, sent / (rate * share) * 1e-6 * exposed, formula, COMMUNICATION)


def message_time(setup: Setup, name: str, sent: float, *, across: bool) -> Term:
    """Return the time of bytes that a rank sends to one other; `across` nodes or inside one."""
    hardware = setup.hardware
    link, rate = ("network", hardware.outside) if across else ("link in the node", hardware.inside)
    return link_time(setup, name, sent, link, rate)


def ring_message_time(setup: Setup, sent: float) -> Term:
    """Return the time of bytes that a rank sends to the next one that shares its sequence, a tensor rank to its like.

    In a ring over several nodes all wait for the edge between two of them: one network card, that of the sending rank,
    which its tensor ranks may share.
    """
    hardware, apart = setup.hardware, setup.parallel.tensor
    link, rate, hop = "link in the node", hardware.inside, HOP_PCIE if hardware.nvlink is None else HOP_NVLINK
    if setup.parallel.context * apart > setup.neighbours:
        card = hardware.nic / min(hardware.gpus_per_nic, apart)
        link, rate, hop = "network", min(rate, card), HOP_NETWORK
    term = link_time(setup, "message", sent, link, rate)
    return term._replace(value=float(term.value) + hop / PER_MS, formula=f"{term.formula} + {hop:g} us")


def collective_time(
    setup: Setup, name: str, sent: float, ranks: int, *, apart: int = 1, exposed: float = 1.0, gathers: bool = False
) -> Term:
    """Return the time of the bytes of a collective; where it `gathers` over many nodes, it is slower than a sum."""
    hardware = setup.hardware
    link, rate = "link in the node", hardware.inside
    if ranks * apart > setup.neighbours:
        ways = max(1, setup.neighbours // apart)
        link = "network" if ways == 1 else f"network of {ways} ranks,"
        rate = min(rate, hardware.outside * ways)
    term = link_time(setup, name, sent, link, rate, exposed)
    if not gathers or ranks * apart < WIDE * setup.neighbours:
        return term
    return term._replace(value=float(term.value) / GATHERED, formula=f"{term.formula} / {GATHERED:g} of many nodes")


def ring_time(setup: Setup, name: str, sent: float, group: ShardGroup, *, gathers: bool = False) -> Term:
    """Return the time of the bytes of a collective that goes around a ring, and of the hops on the way."""
    ranks, apart = group.ranks, group.apart
    term = collective_time(setup, name, sent, ranks, apart=apart, gathers=gathers)
    nodes = -(-ranks // max(1, setup.neighbours // apart))
    hop = HOP_PCIE if setup.hardware.nvlink is None else HOP_NVLINK
    hops = [(count, each) for count, each in ((ranks - nodes, hop), (nodes - 1, HOP_NETWORK)) if count]
    late, said = sum(count * each for count, each in hops), (f"{count} x {each:g} us" for count, each in hops)
    return term._replace(value=float(term.value) + late / PER_MS, formula=" + ".join([term.formula, *said]))
