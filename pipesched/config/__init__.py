"""From YAML and command-line overrides to a Problem, with errors that say where."""
