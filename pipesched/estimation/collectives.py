"""How long collectives of a rank take on the links inside a node and between nodes. In milliseconds."""

from __future__ import annotations

from pipesched.estimation.setup import Setup
from pipesched.estimation.terms import COMMUNICATION, Term


def ring(setup: Setup, name: str, sent: float, ranks: int, *, apart: int = 1, exposed: float = 1.0) -> Term:
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


def exchange(setup: Setup, name: str, *, over_links: float, over_network: float) -> Term:
    """Return the time of bytes that a rank sends to all others, over both kinds of links: the longer one's."""
    hardware = setup.hardware
    inside = _sent(setup, name, over_links, "link in the node", hardware.inside)
    across = _sent(setup, name, over_network, "network", hardware.nic)
    return max(inside, across, key=lambda term: term.value)


def message(setup: Setup, name: str, sent: float, *, across: bool) -> Term:
    """Return the time of bytes that a rank sends to one other; `across` nodes or inside one."""
    hardware = setup.hardware
    link, rate = ("network", hardware.nic) if across else ("link in the node", hardware.inside)
    return _sent(setup, name, sent, link, rate)


def _sent(setup: Setup, name: str, sent: float, link: str, rate: float, exposed: float = 1.0) -> Term:
    share = setup.hardware.efficiency.network
    part = "" if exposed == 1 else f" x {exposed:.3g} exposed"
    formula = f"{sent / 1e6:.6g} MB / ({link} {rate:g} GB/s x {share:.3g}){part}"
    return Term(name, sent / (rate * share) * 1e-6 * exposed, formula, COMMUNICATION)
