"""`pipesched init`: a commented starter config, or the JSON Schema that editors use."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    file: Annotated[
        str | None, typer.Argument(help="Where to write; default: standard output.", metavar="FILE")
    ] = None,
    *,
    schema: Annotated[bool, typer.Option("--schema", help="The JSON Schema of a config instead.", metavar="")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.", metavar="")] = False,
) -> None:
    """Write a starter config that explains every value."""
    import json
    import sys
    from pathlib import Path

    from pipesched.config.starter import json_schema, starter
    from pipesched.file_formats.files import write_file

    text = json.dumps(json_schema(), indent=2) + "\n" if schema else starter()
    if file is None or file == "-":
        sys.stdout.write(text)
    else:
        write_file(Path(file), [text], force)
        print(f"wrote {file}", file=sys.stderr)
