"""The best schedule within a budget and a time, with proof where there is one."""
