"""The entry point: `pipesched` and `python -m pipesched`."""

from __future__ import annotations

import gc
import os
import sys

from pipesched.cli.progress import begin


def main() -> None:
    """Run the command line, and end the process at once when it is done.

    A command runs for a moment: collecting garbage, and freeing a million operations one by one at the end, would take
    longer than drawing them.
    """
    begin()
    _open_streams()
    gc.set_threshold(100_000)
    status: object = 0
    try:
        from pipesched.cli.app import app

        app(prog_name="pipesched")
    except SystemExit as end:
        status = end.code
    except KeyboardInterrupt:
        sys.stderr.write("pipesched: interrupted\n")
        status = 130
    _leave(status if isinstance(status, int) else int(status is not None))


def _open_streams() -> None:
    """Open closed output streams on the null device, and let open ones escape letters that their encoding lacks."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  it stays open to the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _leave(status: int) -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = status or 1
    os._exit(status)


if __name__ == "__main__":
    main()
