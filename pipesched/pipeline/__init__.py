"""Pipeline-parallel training: Problem, Placement, Plan, Schedule, metrics, check."""
