"""The version, read by the build, by workers and by the command line."""

__version__ = "1.0.0"
