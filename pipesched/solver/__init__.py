"""The best schedule under a memory budget, with proof where there is one: bounds, portfolio, CP-SAT, improvement."""
