"""The operations of a device as jobs with heads and tails, in columns, for bounds that count its work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipesched.core.arrays import Ints, column, np, total
from pipesched.core.bounds import Job


class DeviceJobs(NamedTuple):
    """Jobs of a device, of which some may stand for several: their heads, their work and their tails in ticks."""

    heads: Ints
    works: Ints
    tails: Ints

    @property
    def size(self) -> int:
        """The number of jobs."""
        return len(self.works)

    @property
    def work(self) -> int:
        """All work."""
        return total(self.works)

    def with_more(self, jobs: Sequence[Job]) -> DeviceJobs:
        """Return these jobs and more of them."""
        if not jobs:
            return self
        more = zip(*jobs, strict=True)
        return DeviceJobs(*(np.concatenate([own, column(values)]) for own, values in zip(self, more, strict=True)))

    def listed(self) -> list[Job]:
        """Return the jobs one by one."""
        return [*map(Job, *(values.tolist() for values in self))]

    def whole_stretch(self) -> Job:
        """Return the least head, all work and the least tail, with or without what nothing follows: the larger sum."""
        behind = self.tails > 0
        parts = [self, DeviceJobs(*(values[behind] for values in self))]
        stretches = (Job(int(one.heads.min()), one.work, int(one.tails.min())) for one in parts if one.size)
        return max(stretches, key=sum)

    def fewer(self) -> list[Job]:
        """Return jobs of which Jackson's preemptive schedule is as long: many become one.

        It is as long as the longest stretch. One is shorter than that of all jobs if it leaves out more work than its
        least head and tail are larger. So only a few of the smallest heads and tails can begin and end the longest one:
        larger ones count as if they were the largest of those.
        """
        least, most = ([int(of(ends)) for ends in (self.heads, self.tails)] for of in (np.min, np.max))
        late = _first_beyond(self.heads, self.works, most[1] - least[1])
        long = _first_beyond(self.tails, self.works, most[0] - least[0])
        is_kept = (self.heads < late) | (self.tails < long)
        heads, works, tails = (values[is_kept] for values in self)
        rest = [Job(late, self.work - total(works), long)] if len(works) < self.size else []
        if not len(works):
            return rest
        heads, tails = np.minimum(heads, late), np.minimum(tails, long)
        order = np.lexsort((tails, heads))
        heads, works, tails = heads[order], works[order], tails[order]
        first = np.flatnonzero(np.append(True, (heads[1:] != heads[:-1]) | (tails[1:] != tails[:-1])))
        return DeviceJobs(heads[first], np.add.reduceat(works, first), tails[first]).listed() + rest


def _first_beyond(ends: Ints, works: Ints, more: int) -> int:
    """Return the head (or tail) from which on stretches are shorter than that of all jobs, or the largest.

    Each that begins so late leaves out more work than its head is larger than the least one, and `more`.
    """
    order = np.argsort(ends)
    rising, own = ends[order], works[order]
    last = np.flatnonzero(own.cumsum() - own <= rising - rising[0] + more)[-1]
    following = rising[rising > rising[last]]
    return int(following[0] if len(following) else rising[-1])
