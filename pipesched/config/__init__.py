"""A config becomes a Problem or an Estimate; starters and the schema of configs."""
