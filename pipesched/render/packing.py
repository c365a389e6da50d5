"""A packing as tables: what each rank has and takes, and beside it what other rules would take."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from pipesched.checks import joined
from pipesched.pipeline.check import over_budget
from pipesched.pipeline.layers import BEST
from pipesched.render.grid import folded, grid, right, uncut
from pipesched.render.marks import counted, with_unit
from pipesched.render.summary import BAD, GOOD, cut_said
from pipesched.render.timescale import number
from pipesched.results.packing import Packing, PackingBaseline
from pipesched.schedulers.registry import called


def packing_view(packing: Packing, **_: bool) -> Group:
    """Return what was packed, a row a rank, a row for each other rule, and how far the best may be."""
    pieces = "" if packing.pieces is None else f" in {len(packing.lengths)} pieces"
    documents = len(packing.lengths) - len(packing.dropped) if packing.pieces is None else packing.pieces[-1][0] + 1
    left = f", without {len(packing.dropped)} above the cap," if packing.dropped else ""
    what = f"{counted(documents, 'document')}{pieces} of {sum(packing.tokens):,} tokens{left}"
    bins = f"{counted(packing.ranks, 'rank')} x {counted(packing.microbatches, 'microbatch', 'es')}"
    heading = Text(f"{what} on {bins} of at most {packing.cap:,}, fed to {called(packing.algorithm)}")
    makespan = with_unit("makespan", packing.base.time_unit)
    table = grid(right("rank"), right("tokens"), right("work"), right(makespan), right("idle"), uncut(""))
    for rank, (tokens, works) in enumerate(zip(packing.tokens, packing.work, strict=True)):
        cells = (str(rank), f"{tokens:,}", number(sum(works)), number(packing.makespans[rank]))
        mark, style = ("slowest", "bold") if rank == packing.slowest else ("", "")
        table.add_row(*cells, f"{packing.idle(rank):.1%}", mark, style=style)
    return Group(heading, "", table, "", _rules(packing), "", *_ends(packing))


def _rules(packing: Packing) -> RenderableType:
    """Return this packing, and a row for each other rule: what it takes, how much longer that is, and what is wrong."""
    table = grid(uncut("packing"), right(with_unit("makespan", packing.base.time_unit)), right("longer"), folded(""))
    over = ((rank, said) for rank in range(packing.ranks) for said in over_budget(packing.schedule(rank)))
    texts = (f"over budget, as all that were found: rank {rank}, {said}" for rank, said in over)
    own = "" if packing.fits else next(texts, "")
    table.add_row(Text("this one", style=GOOD if packing.fits else BAD), number(packing.makespan), "", own)
    for one in packing.baselines:
        longer = "" if one.makespan is None or not packing.makespan else f"{one.makespan / packing.makespan - 1:+.1%}"
        takes = "" if one.makespan is None else number(one.makespan)
        table.add_row(one.rule, takes, longer, Text("; ".join(_faults(one, packing)), style="dim"))
    return table


def _faults(one: PackingBaseline, packing: Packing) -> Iterator[str]:
    if one.left:
        yield f"{counted(one.left, 'document')} left over"
    if one.most_tokens > packing.cap:
        yield f"{one.most_tokens:,} tokens in a microbatch"
    if one.empty and not one.left:
        yield f"{one.empty:,} of {packing.ranks * packing.microbatches:,} microbatches empty"
    if one.makespan is None and not one.left:
        yield f"{called(packing.algorithm)} has no schedule of it"
    elif not one.fits and not (one.left or one.empty or one.most_tokens > packing.cap):
        yield "over budget"


def _ends(packing: Packing) -> Iterator[Text]:
    """Yield the bound, and what is proved."""
    what = f"every packing, order and schedule of {packing.covers}"
    yield Text(f"bound {number(packing.bound)}, below {what}: gap {packing.gap:.1%}", style="dim")
    if packing.cut is not None:
        alike = ", for microbatches that are alike" * (packing.cut.rule == BEST)
        yield Text(f"cut {cut_said(packing.cut, fits=True)}{alike}", style="dim")
    if packing.tried:
        others = joined([f"{count} ({number(makespan)})" for count, makespan in packing.tried])
        yield Text(f"microbatches tried, each with its makespan: {others}", style="dim")
    if packing.more is not None:
        count, makespan = packing.more
        less = f"{1 - makespan / packing.makespan:.1%} less"
        yield Text(f"more microbatches are shorter: {count} take {number(makespan)}, {less}")
    if packing.exact:
        yield Text(f"the best of all packings and orders for {called(packing.algorithm)}", style=GOOD)
    yield Text("idle: of the devices' time until the slowest rank is done", style="dim")
