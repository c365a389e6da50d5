"""Pipeline-parallel training: problems, placements, plans and schedules on top of the scheduling core."""
