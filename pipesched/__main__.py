"""The entry point: `pipesched` and `python -m pipesched`."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line, and leave at once when it is done.

    A command lives for a moment: it is not worth looking for garbage, nor freeing a million operations one by one at
    the end, which takes longer than drawing them.
    """
    from pipesched.cli.app import app

    gc.set_threshold(100_000)
    status: object = 0
    try:
        app(prog_name="pipesched")
    except SystemExit as end:
        status = end.code
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status if isinstance(status, int) else int(status is not None))


if __name__ == "__main__":
    main()
