"""Cuts for any placement: all are gone through, stage by stage, but for those whose beginning breaks a limit."""

from __future__ import annotations

from pipesched.pipeline.cutting.task import CutTask, Ends


class EverySearch:
    """Goes through the cuts within a cost, until it finds one, or has looked at `most` beginnings (None: all)."""

    def __init__(self, task: CutTask, most: int | None = None) -> None:
        self.task, self.most = task, most
        self.held = {count: task.held(task.flying.index(count)) for count in {*task.flying}} if task.room else {}
        self.is_last = [holder not in task.holders[stage + 1 :] for stage, holder in enumerate(task.holders)]

    def any_within(self, cost: int | None) -> Ends | None:
        """Return a cut within a cost; None if there is none, or none was found.

        `spare` is the work that holders may have above all there is: what a holder leaves of its limit is lost to it.
        """
        task, work = self.task, self.task.work
        limits, room = task.limits(cost), [*task.room] if task.room is not None else None
        spare, stage, end, ends, looked = sum(limits) - work[-1], 0, 0, [0], 0
        lost: list[int] = []
        while stage >= 0 and spare >= 0 and looked != self.most:
            looked += 1
            begin, holder = ends[-1], task.holders[stage]
            end = max(end, begin) + 1
            if stage == task.stages - 1:
                end = max(end, task.items)
            left = limits[holder] - (work[min(end, task.items)] - work[begin])
            is_over = end > task.items - (task.stages - 1 - stage) or left < 0
            held = 0
            if room is not None and not is_over:
                sums = self.held[task.flying[stage]]
                held = sums[end] - sums[begin]
                is_over = held > room[holder]
            if is_over:  # and so is every later end
                stage, end = stage - 1, ends.pop()
                if stage >= 0:
                    spare += self._undo(stage, ends[-1], end, limits, room, lost)
                continue
            gone = left if self.is_last[stage] else 0
            if gone > spare:
                continue
            limits[holder] = left
            spare -= gone
            lost.append(gone)
            if room is not None:
                room[holder] -= held
            ends.append(end)
            stage += 1
            if stage == task.stages:
                return ends[1:]
            end = 0
        return None

    def _undo(
        self, stage: int, begin: int, end: int, limits: list[int], room: list[int] | None, lost: list[int]
    ) -> int:
        """Take a stage away again, and return the spare work that it had lost."""
        holder = self.task.holders[stage]
        limits[holder] += self.task.work[end] - self.task.work[begin]
        if room is not None:
            sums = self.held[self.task.flying[stage]]
            room[holder] += sums[end] - sums[begin]
        return lost.pop()
