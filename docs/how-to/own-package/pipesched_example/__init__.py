"""A schedule, a file format and a command for pipesched."""
