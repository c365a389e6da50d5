"""`pipesched init`: a commented starter config, or the JSON Schema that editors use."""

from __future__ import annotations

import sys
from keyword import iskeyword
from pathlib import Path

from pipesched.cli.options import argument, option, whole_number
from pipesched.cli.reading import flags_of_problem
from pipesched.errors import ConfigError, blame
from pipesched.pipeline.plan.door import require_free
from pipesched.schedulers.registry import KNOWN


def command(
    file: str | None = argument("FILE", "Where to write; default: standard output."),
    *,
    family: str | None = option(
        "--family NAME", "A schedule of your own instead: a file of Python, by default NAME.py, with its test."
    ),
    schema: bool = option("--schema", "The JSON Schema of a config instead."),
    from_model: str | None = option(
        "--from-model NAME|FILE",
        "A config of this model on GPUs instead: a preset of `pipesched list --models`, or a config.json.",
    ),
    hardware: str | None = option("--hardware NAME", "With --from-model: the GPUs."),
    gpus: str | None = option("--gpus N", "With --from-model: how many; default: enough."),
    force: bool = option("--force", "Overwrite an existing file."),
) -> None:
    """Write a starter config that explains every value, or a schedule of your own to begin from."""
    import json

    from pipesched.config.starter import json_schema, setup_starter, starter
    from pipesched.file_formats.files import write_file

    if family is not None and (schema or from_model is not None):
        raise ConfigError("--family: is a file of Python; give neither --schema nor --from-model")
    if from_model is None and (hardware is not None or gpus is not None):
        raise ConfigError("--hardware and --gpus: have no effect without --from-model, which names the model")
    if from_model is not None and schema:
        raise ConfigError("--schema: is of every config; give either it or --from-model")
    commands: list[str] = []
    if family is not None:
        try:
            text, file = family_starter(family, file or "")
        except ConfigError as error:
            raise error.at("--family") from None
        commands = commands_to_try(family, file)
    elif from_model is not None:
        if file is not None and Path(file).parent != Path() and Path(from_model).exists():
            from_model = str(Path(from_model).absolute())  # as the config stands in another folder
        count = None if gpus is None else whole_number("--gpus", gpus, least=1)
        try:
            with flags_of_problem():
                text = setup_starter(from_model, hardware, count)
        except ConfigError as error:
            raise error.at("--from-model") if error.key == "model" else error from None
    else:
        text = json.dumps(json_schema(), indent=2) + "\n" if schema else starter()
    if file is None or file == "-":
        sys.stdout.write(text)
    else:
        with blame(None):  # about an argument, not a flag
            write_file(Path(file), [text], force)
        print("\n  ".join([f"wrote {file}{'; try it:' * bool(commands)}", *commands]), file=sys.stderr)


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
