"""The version of pipesched, read by the build, by workers and by the command line."""

__version__ = "1.0.0"
