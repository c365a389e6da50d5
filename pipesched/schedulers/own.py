"""Families of users: a function `Problem -> Plan | list of texts` as a Family, whose plans are validated and checked.

Python (`family`), the command line (`family_at`), PIPESCHED_FAMILIES (paths of files) and entry points of packages
(`look_for`) bring them in. `made_family` makes one; its `OwnPlan` calls the function.
"""

from __future__ import annotations

import os
import sys
from ast import ClassDef, FunctionDef, parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from difflib import get_close_matches
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from pickle import dumps, loads
from types import ModuleType
from typing import TYPE_CHECKING, Any
from warnings import warn

from pipesched.checks import require_label, require_name, require_type, shown
from pipesched.errors import ConfigError, NotApplicable, OwnCodeFailed, PipeschedWarning
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.plan.door import blamed, installed, loaded, package_of, place, place_of, require_free
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.plan.typed_plan import plan as typed_plan
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.family import ANY, SIMULATED, Family
from pipesched.schedulers.options import COMMON, TAKEN
from pipesched.schedulers.registry import KNOWN, OWN

if TYPE_CHECKING:
    from concurrent.futures import Executor

OwnFunction = Callable[..., "Plan | Sequence[Any]"]
OF_THE_FUNCTION = {"name", "plan", "options", "required", "summary", "origin", "paper"}
FACTS = {"source", *(one.name for one in fields(Family))} - OF_THE_FUNCTION
GROUP = "pipesched.families"  # of entry points
PATHS = "PIPESCHED_FAMILIES"  # the environment variable: files with families
_BY_FUNCTION: dict[int, Family] = {}  # by the identity of the function, which the family keeps
_LOADED: dict[str, ModuleType] = {}  # files, by their paths


class OwnName(str):
    """The name of a family of a user, which brings the family along: into other processes too."""

    __slots__ = ("family",)
    family: Family
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same text, and of another such name the same function: what is cached is of one."""
        return str.__eq__(self, other) and (not isinstance(other, OwnName) or self.family.plan == other.family.plan)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __reduce__(self) -> Any:  # pickle then calls one of the next two functions, in the other process
        plan = self.family.plan
        assert isinstance(plan, OwnPlan)
        file = getattr(sys.modules.get(plan.function.__module__), "__own_file__", None)
        given = str(self), plan.function, plan.facts
        return (_sent, (str(self), file, plan.function.__name__)) if file else (_made_again, given)


def _sent(name: str, file: str, function: str) -> str:
    """Return the name of a family in a file, which is loaded where that has not been done."""
    load_file(file)
    return (OWN.get(name) or family_at(f"{file}:{function}")).name


def _made_again(name: str, function: OwnFunction, facts: dict[str, Any]) -> str:
    return made_family(function, name, facts).name


def family(name: str | OwnFunction | None = None, function: OwnFunction | None = None, /, **facts: Any) -> Any:
    """Register a function `problem -> plan` as a family of schedules: its name, or itself, then counts as an algorithm.

    >>> import pipesched
    >>> @pipesched.family("all-forwards", placement="linear")
    ... def all_forwards(problem):
    ...     every = range(problem.microbatches)
    ...     return [[f"{d}{kind}{m}" for kind in "FB" for m in every] for d in range(problem.devices)]
    >>> pipesched.run(pipesched.make_problem(devices=2, microbatches=2), "all-forwards").schedule.makespan
    9

    Args:
        name: Its name, of small letters, digits, - and _; default: that of the function. Without a function this is a
            decorator.
        function: It takes a Problem, with its placement and as many stages as `placement` says. It returns a Plan, or
            for each device the texts of its operations, as `pipesched.plan` takes them. Its other parameters are
            options. `NotApplicable("why")` says no.
        **facts: `placement`, `chunks` (stages a device) and `is_multiple`; `title`, what pictures and tables call it
            ("GEMS"); `needs`, `bubble`, `memory`, `source` and `elsewhere`, texts for people; `splits_backward`,
            `has_pairs`, `slices`, `forward_only`, `obeys_budget`, `settled_order`, `looks_at_each` and the other fields
            of `Family`: what others may rely on.

    Returns:
        The function itself.

    Raises:
        ConfigError: For a name that is taken, a bad fact, and what is no function of a problem.
    """
    if callable(name):
        return family(None, name, **facts)
    if name is not None:
        require_label(name, "name")
    if function is None:
        return lambda one: family(name, one, **facts)
    register(made_family(function, _name_of(function) if name is None else name, facts), function)
    return function


def _name_of(function: OwnFunction) -> str:
    return getattr(function, "__name__", "").lower().replace("_", "-")


@dataclass(frozen=True)
class OwnPlan:
    """The function of a user as the plan of a family: whatever it does wrong is one message with its file and line."""

    name: str
    function: OwnFunction
    facts: dict[str, Any] = field(hash=False)

    def __call__(self, problem: Problem, **options: Any) -> Plan:
        options.pop("judge", None)  # what families that choose among group sizes are given
        options = _in_floats(options)
        if missing := [one for one in _options(self.function)[1] if one not in options]:
            raise NotApplicable(f"{self.name} needs its option `{missing[0]}`, which has no default", missing[0])
        with blamed(self.name, *place_of(self.function)):
            made: Any = self.function(problem, **options)
            if not isinstance(made, (Plan, list, tuple)):
                getattr(made, "close", lambda: None)()  # of a coroutine, which would say so too
                what = "and returns nothing" if made is None else f"not {shown(made)}"
                raise ConfigError(f"must return a Plan, or a list of operations for each device, {what}")
            plan = made if isinstance(made, Plan) else typed_plan(problem, made)
            splits = self.facts.get("splits_backward")
            for what, is_so, breaks in (  # bounds rest on these facts
                ("has_pairs=True", bool(plan.pairs), not self.facts.get("has_pairs")),
                ("splits_backward=None", bool(plan.count("I")), splits is False),
                ("splits_backward=None", bool(plan.count("B")), splits is True),
            ):
                if is_so and breaks:
                    raise ConfigError(f"returns a plan that its facts exclude; say {what}")
            checked(schedule_plan(problem, plan))
        return plan


def _in_floats(value: Any) -> Any:
    """Return options as a function computes with them: those of a config that are no whole numbers as floats."""
    if isinstance(value, dict):
        return {key: _in_floats(one) for key, one in value.items()}
    if isinstance(value, list):
        return [*map(_in_floats, value)]
    return float(value) if isinstance(value, Decimal) else value


def made_family(function: OwnFunction, name: str, facts: dict[str, Any] | None = None) -> Family:
    """Return the family of a function. Raises ConfigError for a bad fact, and for what is no function."""
    require_type(function, Callable, "a function of a problem", "function")
    given = facts or {}
    for fact in given:
        require_name(sorted(FACTS), fact, "fact", "family")
    own = OwnName(name)
    options, required = _options(function)
    known: dict[str, Any] = {"placement": ANY, "needs": "any", "paper": "none", "splits_backward": None}
    known |= {"bubble": SIMULATED, "memory": SIMULATED}
    known |= {"paper" if key == "source" else key: value for key, value in given.items()}
    told = cleandoc(function.__doc__ or "") if hasattr(function, "__name__") else ""  # others have that of their class
    plan = OwnPlan(str(own), function, given)
    known |= {"summary": told.partition("\n")[0], "origin": place(*place_of(function))}
    own.family = Family(own, plan, options=options, required=required, **known)
    return own.family


def family_of(function: OwnFunction, attribute: str = "") -> Family:
    """Return the family of a function: as it was registered, else by the name of an attribute, or its own.

    Raises ConfigError.
    """
    name = attribute.lower().replace("_", "-") or _name_of(function)
    known = _BY_FUNCTION.get(id(function))
    return known or made_family(function, require_free(name, KNOWN, "an algorithm"))


def register(known: Family, function: OwnFunction) -> None:
    """Register the family of a function; again where its definition has run again. Raises ConfigError."""
    before = OWN.get(require_free(known.name, KNOWN, "an algorithm"))
    if before is not None and _definition(before.plan.function).isdisjoint(_definition(function)):  # type: ignore[attr-defined]
        raise ConfigError(f"{known.name!r} is taken: {before.origin} has a family of that name", "name")
    others = {name for one in OWN.values() if one is not before for name in (one.name, one.title)}
    if known.title and known.title in {*KNOWN, *others}:
        raise ConfigError(f"{known.title!r} is taken: another algorithm is called so", "title")
    known.name.family = known  # type: ignore[attr-defined]
    OWN[str(known.name)] = _BY_FUNCTION[id(function)] = known


def _definition(function: OwnFunction) -> set[tuple[str, str]]:
    """Return what a function has in common with one that the same text defined before: its name in a module or file."""
    return {(where, getattr(function, "__qualname__", "")) for where in (function.__module__, place_of(function)[0])}


def look_for(name: str | None, *, packages: bool) -> None:
    """Register the families of PIPESCHED_FAMILIES, and that of a name in installed packages; without a name all."""
    for file in filter(None, os.environ.get(PATHS, "").split(os.pathsep)):
        try:
            load_families(file)
        except OwnCodeFailed:
            raise
        except ConfigError as error:
            raise ConfigError(f"{PATHS}: {error.message}") from None
    for entry in installed(GROUP).values() if packages and (name is None or name not in OWN) else ():
        if entry.name not in OWN and name in (None, entry.name):
            function, whose = loaded(entry), package_of(entry)
            known = _BY_FUNCTION.get(id(function)) or made_family(function, entry.name)
            if known.name != entry.name:
                raise ConfigError(f"{whose} declares {entry.name!r}, and its function is the family {known.name!r}")
            register(replace(known, origin=whose), function)


def declared() -> Sequence[str]:
    """Return the names of families that installed packages declare, whether they are loaded or not."""
    return [*installed(GROUP)]


def load_families(file: str) -> None:
    """Run a file of Python once, which registers its families. Raises ConfigError for one that has none."""
    before, is_first = len(_BY_FUNCTION), str(Path(file).resolve()) not in _LOADED
    load_file(file)
    if is_first and len(_BY_FUNCTION) == before:
        raise ConfigError(f"{file} registers no family: write @pipesched.family above a function")


def load_file(file: str) -> ModuleType:
    """Run a file of Python once, and return it as a module. Raises ConfigError."""
    path = str(Path(file).resolve())
    if path in _LOADED:
        return _LOADED[path]
    if not Path(path).is_file():
        what = "is a folder; name a file in it" if Path(path).is_dir() else "there is no such file of Python"
        raise ConfigError(f"{file}: {what}")
    name = f"pipesched_own_{len(_LOADED)}_{Path(file).stem}"
    spec = spec_from_file_location(name, path, loader=SourceFileLoader(name, path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    module.__own_file__ = path  # type: ignore[attr-defined]  # by which other processes find it
    sys.modules[name] = module
    if (folder := str(Path(path).parent)) not in sys.path:
        sys.path.append(folder)  # it imports what stands beside it, as a script does
    try:
        with blamed("cannot be loaded", path):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _LOADED[path] = module
    return module


def forget() -> None:
    """Forget the families of users, for tests and documentation."""
    for table in (OWN, _BY_FUNCTION, _LOADED):
        table.clear()


def family_at(place: str) -> Family:
    """Return the family of `module:function`, or of `FILE.py:function`. Raises ConfigError."""
    where, _, attribute = place.rpartition(":")
    if where.endswith(".py"):
        module = load_file(where)
    else:
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
        with blamed("cannot be loaded", where):
            module = import_module(where)
    function = getattr(module, attribute, None)
    if not callable(function):
        near = get_close_matches(attribute, [name for name, one in vars(module).items() if callable(one)], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"{where} has no function {shown(attribute)}{hint}", "algorithm")
    with blamed(attribute, *place_of(function)):
        return family_of(function, attribute)


def _options(function: OwnFunction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options of a function, its parameters behind the problem, and those without a default."""
    try:
        _, *others = signature(function).parameters.values()
    except (TypeError, ValueError):
        name = getattr(function, "__name__", type(function).__name__)
        raise ConfigError(f"takes no problem; it begins with `def {name}(problem`", "function") from None
    named = [one for one in others if one.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
    for one in named:
        if one.name in (*COMMON, *TAKEN):
            whose = "an option that every family has already" if one.name in COMMON else "a name that is taken"
            raise ConfigError(f"has a parameter {one.name}, {whose}; choose another", "function")
    required = tuple(one.name for one in named if one.default is Parameter.empty)
    return tuple(one.name for one in named), required


def executor_of(names: Sequence[OwnName], executor: Executor | str) -> Executor | str | None:
    """Return the executor of `registry.runs_of`."""
    try:
        is_sent = all(loads(dumps(name)) == name and _has_module(name) for name in names)
    except Exception:  # whatever pickle meets: a lambda, a function in a function, a bound method
        is_sent = False
    if is_sent:
        return executor
    text = f"{', '.join(dict.fromkeys(names))}: no other process can import its function; all runs in this one"
    warn(text, PipeschedWarning, stacklevel=4)
    return None


def _has_module(name: OwnName) -> bool:
    """Return whether another process finds the function: not in a notebook, nor where a script does not define it."""
    # what stands below `if __name__ == "__main__"` runs in no other process
    given = name.family.plan.function  # type: ignore[attr-defined]
    function, file = getattr(given, "func", given), getattr(sys.modules["__main__"], "__file__", None)
    if function.__module__ != "__main__" or file is None:
        return bool(function.__module__ != "__main__")
    defined = [node for node in parse(Path(file).read_bytes()).body if isinstance(node, (ClassDef, FunctionDef))]
    return getattr(function, "__qualname__", type(function).__qualname__) in [node.name for node in defined]
