"""The starter of a schedule of one's own: a file of Python with an example, its test, and the commands to try it."""

from __future__ import annotations

from keyword import iskeyword

from pipesched.pipeline.door import require_free
from pipesched.schedulers.registry import KNOWN

TEXT = '''"""{name}: a schedule of your own. Change the function, then try it:

{commands}
"""

import pipesched
from pipesched.testing import check_family


@pipesched.family("{name}", placement="linear")  # each device one stage; also loop, v, wave: see `pipesched.Family`
def {function}(problem: pipesched.Problem, *, ahead: int = 1) -> list[list[str]]:
    """1F1B with some forwards more ahead of the first backward."""
    orders = []
    for device in range(problem.devices):  # in this placement the number of its stage too
        warm_up = min(problem.devices - device - 1 + ahead, problem.microbatches)
        order = [f"{{device}}F{{m}}" for m in range(warm_up)]  # "2F0": the forward of stage 2 for microbatch 0
        for m in range(problem.microbatches):
            if m + warm_up < problem.microbatches:
                order.append(f"{{device}}F{{m + warm_up}}")
            order.append(f"{{device}}B{{m}}")  # its backward; "I" and "W" are the halves of one
        orders.append(order)
    return orders


def test_{function}() -> None:
    """Complete, no deadlock, not below the bound, on random problems; with slices where `slices=True` stands above."""
    check_family({function}, n=200)
'''


def family_starter(name: str, file: str = "") -> tuple[str, str]:
    """Return the text of the file, and its name: `file`, else that of the function. Raises ConfigError."""
    function = require_free(name, KNOWN, "an algorithm").replace("-", "_")
    if not function.isidentifier() or iskeyword(function):
        function = f"plan_{function}"
    path = file or f"{function}.py"
    commands = "\n".join(f"    {command}" for command in commands_to_try(name, path))
    return TEXT.format(name=name, function=function, commands=commands), path


def commands_to_try(name: str, file: str) -> list[str]:
    """Return the commands that draw it, compare it and test it."""
    return [f"pipesched run {name} --family {file}", f"pipesched compare 1f1b {name} --family {file}", f"pytest {file}"]
