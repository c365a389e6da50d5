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
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # a closed stream becomes the null device, open to the end
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        if hasattr(getattr(sys, name), "reconfigure"):  # letters that its encoding lacks are escaped
            getattr(sys, name).reconfigure(errors="backslashreplace")
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
    code = status if isinstance(status, int) else int(status is not None)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1
    os._exit(code)


if __name__ == "__main__":
    main()
