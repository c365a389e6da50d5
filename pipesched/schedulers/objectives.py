"""The objectives: each as a key of schedules, with the other to break ties."""

from __future__ import annotations

from operator import attrgetter

OBJECTIVES = {
    "span": attrgetter("span_ticks", "makespan_ticks"),
    "makespan": attrgetter("makespan_ticks", "span_ticks"),
}
