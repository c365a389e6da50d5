"""The section `task` of a config, which makes it an exercise: what to do, the goal, hints, and the best known."""

from __future__ import annotations

from dataclasses import dataclass

from pipesched.checks import require_label, require_number, require_sequence
from pipesched.config.values import TASK, Source
from pipesched.errors import ConfigError
from pipesched.pipeline.shapes import Label, ListOf, Number, declare, declared
from pipesched.text.sections import Entries, Section, located
from pipesched.text.yaml_reader import parse_yaml


@dataclass(frozen=True)
class Task:
    """An exercise on the problem of its config: the makespan to reach, and the shortest that is known."""

    goal: int | float = declare(Number(above=True), "the makespan to reach")
    best: int | float = declare(Number(above=True), "the shortest makespan that is known")
    say: str = declare(Label(), "what to do", "Make the makespan as short as you can.")
    hints: tuple[str, ...] = declare(ListOf(Label()), "what may help, the first thing first", ())

    def __post_init__(self) -> None:
        for key in ("goal", "best"):
            require_number(getattr(self, key), f"task.{key}", above=True)
        if self.best > self.goal:
            raise ConfigError(f"must be at least the best known, {self.best}, not {self.goal}", "task.goal")
        require_label(self.say, "task.say")
        object.__setattr__(self, "hints", tuple(require_sequence(self.hints, "task.hints")))
        for hint in self.hints:
            require_label(hint, "task.hints")


def read_task(source: Source) -> Task | None:
    """Return what the section says; None without one. Raises ConfigError that says where the value at fault stands."""
    root = parse_yaml(source.text, source.name)
    if not isinstance(root.data, dict) or TASK not in root.data:
        return None
    section = Section(root.data[TASK], source.name)
    try:
        entries = Entries(section.value, TASK, [*declared(Task, TASK)])
        for key in ("goal", "best"):
            if key not in entries:
                raise ConfigError("is missing", f"{TASK}.{key}")
        numbers = {key: entries.number(key) for key in ("goal", "best")}
        return Task(**numbers, say=entries.plain("say", Task.say), hints=entries.plain("hints", ()))
    except ConfigError as error:
        raise located(error, {TASK: section}) from None
