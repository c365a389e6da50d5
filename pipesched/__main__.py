"""The entry point: `pipesched` and `python -m pipesched`."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from pipesched.cli.app import app

    app(prog_name="pipesched")


if __name__ == "__main__":
    main()
