"""Figures for papers and slides, drawn by matplotlib: SVG, PNG and PDF. Raises ConfigError where it is missing."""

from importlib.util import find_spec

from pipesched.errors import ConfigError

if find_spec("matplotlib") is None:
    raise ConfigError("figures are drawn by matplotlib, which is not installed: pip install 'pipesched[plot]'")
