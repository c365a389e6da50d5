"""`pipesched init`: a commented starter config, or the JSON Schema that editors use."""

from __future__ import annotations

import sys
from pathlib import Path

from pipesched.cli.options import argument, option, whole_number
from pipesched.cli.reading import flags_of_problem
from pipesched.errors import ConfigError


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

    from pipesched.config.starter import json_schema, starter
    from pipesched.file_formats.files import write_file

    if family is not None and (schema or from_model is not None):
        raise ConfigError("--family: is a file of Python; give neither --schema nor --from-model")
    if from_model is None and (hardware is not None or gpus is not None):
        raise ConfigError("--hardware and --gpus: have no effect without --from-model, which names the model")
    if from_model is not None and schema:
        raise ConfigError("--schema: is of every config; give either it or --from-model")
    commands: list[str] = []
    if family is not None:
        from pipesched.cli.family_starter import commands_to_try, family_starter

        try:
            text, file = family_starter(family, file or "")
        except ConfigError as error:
            raise error.at("--family") from None
        commands = commands_to_try(family, file)
    elif from_model is not None:
        text = _of_model(from_model, file, hardware, gpus)
    else:
        text = json.dumps(json_schema(), indent=2) + "\n" if schema else starter()
    if file is None or file == "-":
        sys.stdout.write(text)
    else:
        try:
            write_file(Path(file), [text], force)
        except ConfigError as error:
            raise ConfigError(error.message) from None  # about an argument, not a flag
        print("\n  ".join([f"wrote {file}{'; try it:' * bool(commands)}", *commands]), file=sys.stderr)


def _of_model(model: str, file: str | None, hardware: str | None, gpus: str | None) -> str:
    """Return a starter config of a model on GPUs: in another folder the path of a config.json is absolute."""
    from pipesched.config.setup_starter import setup_starter

    if file is not None and Path(file).parent != Path() and Path(model).exists():
        model = str(Path(model).absolute())
    count = None if gpus is None else whole_number("--gpus", gpus, least=1)
    try:
        with flags_of_problem():
            return setup_starter(model, hardware, count)
    except ConfigError as error:
        raise error.at("--from-model") if error.key == "model" else error from None
