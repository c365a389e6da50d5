"""How much time a solve gives to what, how often it tries, and what it calls large: numbers to tune, and their reasons.

A solve takes a policy beside its `Limits`. Each class is for the modules that stand beside it in `SolvePolicy`; a field
has its default, and in its comment the unit and what it is for. A variant is the search on one placement (variant.py);
justification schedules back from the end, and forwards again (`justify` of portfolio.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PortfolioPolicy:
    """Heuristics: the families, list scheduling by rules, and justification."""

    part: float = 0.15  # of the time limit: until rules of list scheduling end; the families may take all of it
    slow: int = 1_000  # operations: up to so many, rules are tried with all ties; else a quick schedule comes first
    one_limit: int = 10_000  # operations: up to so many, lists under one limit for all stages, which may deadlock
    pauses: tuple[int, ...] = (0, 2, 10)  # longest operations: activations count as held so much longer, in shares
    looser: tuple[float | None, ...] = (1.5, 2, 3, None)  # budgets: limits of orders in which memory is saved
    held: tuple[float, ...] = (1.0, 0.5, 0.0)  # parts of what a step holds beside passes: left free for it, in turn
    fruitless: int = 30  # rounds: of justification without success, after which it ends


@dataclass(frozen=True)
class VariantPolicy:
    """The search of variants one after another, and the part of a variant's time for each method."""

    first_part: float = 0.65  # of the time left: for the next variant, at least, since the most promising comes first
    justification_part: float = 0.1  # of the time of a variant: for justification
    neighbourhoods_part: float = 0.6  # of what justification leaves: for windows, unless CP-SAT does not follow
    easy: int = 300  # operations: up to so many, CP-SAT needs no better schedule, no block and no relaxation first
    end: float = 0.02  # of the time limit: with no more left, it is what ends a search
    large: int = 3_500  # operations: with more, CP-SAT cannot prove; periods come first, and workers try portfolios


@dataclass(frozen=True)
class ExactPolicy:
    """CP-SAT on a whole variant."""

    before: float = 4e-4  # seconds an operation: before CP-SAT first looks at its limit; it ends in an eighth of that
    relaxed: int = 1_000  # tasks: with more there is no linear relaxation, and with twice as many no round of probing


@dataclass(frozen=True)
class NeighbourhoodPolicy:
    """Large neighbourhood search in windows of time."""

    first_size: int = 120  # operations: in the first window
    least_size: int = 30  # operations: windows do not shrink further
    most_size: int = 1_000  # operations: windows do not grow further
    fruitless: int = 300  # windows: without success, after which the search ends
    effort: float = 0.1  # deterministic seconds of CP-SAT: for a window


@dataclass(frozen=True)
class PeriodPolicy:
    """The periodic method: its part of a solve, its blocks, and its beam search."""

    part: float = 0.4  # of the time left: beside other methods, at most
    unrolled: int = 20_000  # operations: with more, to unroll a block takes seconds, so only the best of a round is
    most_microbatches: int = 3  # microbatches: in a block
    most_on_device: int = 24  # operations: of a block on a device
    most_runs: int = 64  # beam searches: with more, no further round is worth it
    width: int = 100  # beginnings: kept by the beam search after each device
    children: int = 12  # choices: for each beginning
    second: tuple[float, ...] = (0.0, 0.05, 0.15)  # of the operations: take the second free place, in turn


@dataclass(frozen=True)
class AdvicePolicy:
    """Advice after a solve."""

    part: float = 0.1  # of the time limit: at most, and of the time that a long solve took
    a_second: int = 80_000  # operations: that are scheduled in a second
    brief: int = 20_000  # operations: in all schedules, after a quick solve that its limit did not end


@dataclass(frozen=True)
class SolvePolicy:
    """The policy of a solve: a part for each of its steps."""

    portfolio: PortfolioPolicy = PortfolioPolicy()  # solver/portfolio.py, solver/recompute_offload.py
    variants: VariantPolicy = VariantPolicy()  # solver/solve.py
    exact: ExactPolicy = ExactPolicy()  # solver/bounds.py, solver/model.py and the like
    neighbourhoods: NeighbourhoodPolicy = NeighbourhoodPolicy()  # solver/neighbourhood.py
    periods: PeriodPolicy = PeriodPolicy()  # solver/periodic/
    advice: AdvicePolicy = AdvicePolicy()  # solver/advice.py


DEFAULT = SolvePolicy()
