"""Tasks, resources and time: timing, list scheduling, bounds, check, CP-SAT. Nothing of pipelines or hardware."""
