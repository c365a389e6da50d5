"""From what a user writes to a Problem, every default filled in: numbers or their texts, one for all or a list."""

from __future__ import annotations

from inspect import Parameter, Signature, cleandoc
from typing import Any

from pipesched.pipeline.problem.declared import PARAMETERS
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.readers import OF_STAGES, problem_from

# What is one a stage has no default here, since layers may make it.
DEFAULTS = {name: None if name in OF_STAGES else one.absent for name, one in PARAMETERS.items()}


def make_problem(**given: Any) -> Problem:
    """Build a problem, every default filled in.

    >>> make_problem(devices=4, microbatches=8, forward=[1, 1, 2, 1]).costs.stages
    4

    Numbers may be int, float, Decimal, Fraction, the text of a number, or numpy's; of decimals 9 digits count, rounded
    half up. Where microbatches differ, an entry of a cost or of `activation` may list one for each microbatch, M in
    all. Times are in the user's time unit, memory in the user's memory unit. Texts may name another, as "250us" and
    "80GB" do, beside `time_unit` or `unit`: ns, us, ms, s; B, kB, MB, GB, TB, KiB, MiB, GiB, TiB.

    Raises:
        ConfigError: For a bad value; its `key` is the parameter.
        TypeError: For an unknown parameter, and without `devices`.
    """
    unknown = next((name for name in given if name not in DEFAULTS), None)
    if unknown is not None:
        raise TypeError(f"make_problem() got an unexpected keyword argument {unknown!r}")
    if "devices" not in given:
        raise TypeError("make_problem() missing 1 required keyword-only argument: 'devices'")
    return problem_from(DEFAULTS | given)


_EACH = "".join(f"    {name}: {one.help[0].upper()}{one.help[1:]}.\n" for name, one in PARAMETERS.items())
_RAISES = "Raises:\n"
make_problem.__doc__ = cleandoc(make_problem.__doc__ or "").replace(_RAISES, f"Args:\n{_EACH}\n{_RAISES}")
make_problem.__signature__ = Signature(  # type: ignore[attr-defined]
    [
        Parameter(name, Parameter.KEYWORD_ONLY, default=Parameter.empty if name == "devices" else default)
        for name, default in DEFAULTS.items()
    ]
)
