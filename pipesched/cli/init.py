"""`pipesched init`: a commented starter config, or the JSON Schema that editors use."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    file: Annotated[
        str | None, typer.Argument(help="Where to write; default: standard output.", metavar="FILE")
    ] = None,
    *,
    schema: Annotated[bool, typer.Option("--schema", help="The JSON Schema of a config instead.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a starter config that explains every value."""
    import json
    import sys
    from pathlib import Path

    from pipesched.cli.output import write_file
    from pipesched.config.starter import STARTER, json_schema

    text = json.dumps(json_schema(), indent=2) + "\n" if schema else STARTER
    if file is None or file == "-":
        sys.stdout.write(text)
    else:
        write_file(Path(file), [text], force)
        print(f"wrote {file}", file=sys.stderr)
