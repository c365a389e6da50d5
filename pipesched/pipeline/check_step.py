"""The check of a step's times: restated from the problem, its plan, and when each operation starts and ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, product

from pipesched.core.arrays import Ints, column, np
from pipesched.core.clock import look
from pipesched.pipeline.check_memory import TimeTables
from pipesched.pipeline.check_program import (
    AT_ONCE,
    CheckedProgram,
    checked_programs,
    entries_of,
    latest,
    misplaced_step,
    step_columns,
    tied_ends,
    unfit_step,
)


def incomplete_step(tables: TimeTables) -> Iterator[str]:
    """Yield operations of the step that are missing, stand twice or out of place, or have no start from time 0 on."""
    yield from unfit_step(tables.problem, tables.plan)
    index, plan = tables.index, tables.plan
    early = np.flatnonzero(tables.start[index.passes :] < 0) + index.passes
    if len(early):
        planned = np.zeros(index.size, dtype=bool)
        for numbers in (*tables.orders, *(entries_of(plan, device)[0] for device in range(len(plan.network)))):
            planned[numbers] = True
        for number in early[planned[early]].tolist():
            yield f"{index.op(number)} starts before time 0"


def wrong_step(tables: TimeTables) -> Iterator[str]:
    """Yield operations of the step that are out of place, or have other times than the rules say."""
    programs = checked_programs(tables.problem, tables.plan)
    wrong = [*misplaced_step(tables.problem, tables.plan), *chain.from_iterable(one.wrong for one in programs)]
    yield from wrong
    if not wrong and tables.index.scoped:
        yield from _StepRules(tables, programs).broken()


class _StepRules:
    """The rules of the times of a step."""

    def __init__(self, tables: TimeTables, programs: Sequence[CheckedProgram]) -> None:
        self.tables, self.problem, self.index = tables, tables.problem, tables.index
        self.start, self.end, self.programs = tables.start, tables.end, programs
        self.kinds = [rows.kind for rows in self.index.scoped]

    def broken(self) -> Iterator[str]:
        """Yield a sentence for each rule that is broken."""
        yield from self._lengths()
        for device, program in enumerate(self.programs):
            yield from self._of_lane(device, program)
        yield from self._apart()
        yield from self._needs()
        yield from self._side()

    def _where(self, number: int) -> str:
        """Return the text of an operation and where it runs."""
        op = self.index.op(number)
        if number < self.index.passes or self.tables.runs_on[number] >= 0:
            return str(op)
        return f"{op} on the network lane of device {self.tables.there[op.stage]}"

    def _early(self, number: int, before: int, lag: int = 0, *, on: int = -1) -> str:
        """Return the sentence of an operation that starts before another has ended (and its message is there)."""
        start, end = self.tables.time(self.start[number]), self.tables.time(self.end[before] + lag)
        what, where = "the message" if lag else "the end", f" on device {on}" if on >= 0 else ""
        return f"{self._where(number)}{where} starts at {start}, before {what} of {self._where(before)} at {end}"

    def _lengths(self) -> Iterator[str]:
        """Yield operations that last another time than they should; with own lengths, that end before they start."""
        first, is_own = self.index.passes, self.tables.schedule.own_lengths
        lasts = self.end[first:] - self.start[first:]
        due = np.concatenate([self._due(kind) for kind in self.kinds])
        may_last = is_own & (step_columns(self.index).kind != "RESHARD")
        for at in np.flatnonzero(np.where(may_last, lasts < 0, lasts != due)).tolist():
            what = f"lasts {self.tables.time(lasts[at])}, not {self.tables.time(due[at])}"
            yield f"{self._where(first + at)} {'ends before it starts' if may_last[at] else what}"

    def _due(self, kind: str) -> Ints:
        """Return what the operations of a kind last."""
        times, (numbers, stages) = self.problem.step_ticks, self.tables.scoped(kind)
        by_stage = {"UNSHARD": times.gather, "REDUCE_GRAD": times.reduce, "OPTIMIZER": times.optimizer}
        if kind in by_stage or kind not in ("E", "G"):
            lasts: Ints = column(by_stage.get(kind, [times.tied if kind == "REDUCE_TIED" else 0] * self.index.stages))
            return lasts[stages]
        microbatches = step_columns(self.index).number[numbers - self.index.passes]
        rows = zip(stages.tolist(), microbatches.tolist(), self.tables.runs_on[numbers].tolist(), strict=True)
        return column(times.side_lasts("forward" if kind == "E" else "backward", *row) for row in rows)

    def _of_lane(self, device: int, program: CheckedProgram) -> Iterator[str]:
        """Yield what starts too early on a lane, or on its device before the weights are there; and RESHARD late."""
        number, after = entries_of(self.tables.plan, device)
        ready = np.where(after == AT_ONCE, 0, self.end[after])
        is_free = np.isin(number, [*program.freed])
        gathers = column([program.freed[one] for one in number[is_free].tolist()])
        ready[is_free] = np.maximum(ready[is_free], self.end[gathers])
        for at in np.flatnonzero(np.where(is_free, self.start[number] != ready, self.start[number] < ready)).tolist():
            one, time = int(number[at]), self.tables.time
            if is_free[at]:
                what = f"{self._where(one)} is at {time(self.start[one])}, not at {time(ready[at])}"
                yield f"{what}, when the slot before it and its UNSHARD have ended"
            else:
                yield self._early(one, int(after[at]))
        moved = number[~is_free]
        for at in np.flatnonzero(self.start[moved[1:]] < self.end[moved[:-1]]).tolist():
            before = self.index.op(int(moved[at]))
            yield f"{self._where(int(moved[at + 1]))} starts before {before} has ended on the same lane"
        slots, before = column([*chain.from_iterable(program.starts)]).reshape(-1, 2).T
        for at in np.flatnonzero(self.start[slots] < self.end[before]).tolist():
            yield self._early(int(slots[at]), int(before[at]), on=device)

    def _apart(self) -> Iterator[str]:
        """Yield both ends of REDUCE_TIED where they do not start and end together."""
        both = self.index.of_kind("REDUCE_TIED")
        if len({(self.start[number], self.end[number]) for number in both}) > 1:
            yield f"{' and '.join(map(self._where, both))} are one, but do not start and end together"

    def _needs(self) -> Iterator[str]:
        """Yield what starts before the last of the backwards, and of the operations of the step, that it needs."""
        ends, clip = tied_ends(self.problem), [*range(self.index.stages)] if self.problem.clip else []
        for number in self.index.of_kind("OPTIMIZER"):
            stage = self.index.stage_of(number)
            needed = self._latest(clip or [stage], everything=bool(clip) or stage in ends)
            yield from self._before(number, needed, on=int(self.tables.there[stage]))
        yield from self._reductions()
        for number in self.index.of_kind("REDUCE_TIED"):
            yield from self._before(number, self._latest(ends))

    def _before(self, number: int, needed: Ints, on: int = -1) -> Iterator[str]:
        for before in needed[self.end[needed] > self.start[number]].tolist():
            yield self._early(number, before, on=on)

    def _latest(self, stages: Sequence[int], *, everything: bool = False) -> Ints:
        """Return the last backward and the last reduction of some stages; with `everything` the tied one too."""
        rows, tied = [last[column(stages)] for last in self._last], self.index.of_kind("REDUCE_TIED")
        if everything and tied:
            rows.append(column([max(tied, key=self.end.__getitem__)]))
        return np.concatenate([column(()), *rows])

    @cached_property
    def _last(self) -> list[Ints]:
        """The last B, W and reduction of each stage, of those that there are."""
        index, stages = self.index, np.arange(self.index.stages)
        found = [latest(index, self.end, kind, index.units, stages)[:, 0] for kind in self.tables.present("BW")]
        reductions = self.tables.scoped("REDUCE_GRAD")[0]
        if len(reductions):
            rows = reductions.reshape(index.stages, -1)
            found.append(rows[stages, self.end[rows].argmax(axis=1)])
        return found

    def _reductions(self) -> Iterator[str]:
        numbers = self.tables.scoped("REDUCE_GRAD")[0]
        if not len(numbers):
            return
        last = latest(self.index, self.end, "BW", self.tables.width, np.arange(self.index.stages)).ravel()
        for at in np.flatnonzero(self.start[numbers] < self.end[last]).tolist():
            yield self._early(int(numbers[at]), int(last[at]))

    def _side(self) -> Iterator[str]:
        """Yield side work, and what it is for, that starts before its input is there."""
        for kind, side in product("EG", range(len(self.problem.side))):
            look()
            number, into = column(self.index.row(kind, side)), self.problem.side[side].into
            device = self.tables.runs_on[number]
            lag = np.where(device == self.tables.there[into], 0, self.problem.step_ticks.side_p2p[side])
            if kind == "E":
                used = column(self.index.row("F", into))[:: self.index.slices]
                for at in np.flatnonzero(self.start[used] < self.end[number] + lag).tolist():
                    yield self._early(int(used[at]), int(number[at]), int(lag[at]), on=int(self.tables.there[into]))
            elif len(number):
                last = latest(self.index, self.end, "BI", self.index.slices, column([into]))[0]
                forward, none = column(self.index.row("E", side)), 0 * lag
                needs = [(before, hop, self.start[number] < self.end[before] + hop)
                         for before, hop in ((last, lag), (forward, none))]  # fmt: skip
                for at in np.flatnonzero(needs[0][2] | needs[1][2]).tolist():
                    for before, hop, is_early in needs:
                        if is_early[at]:
                            yield self._early(int(number[at]), int(before[at]), int(hop[at]), on=int(device[at]))
