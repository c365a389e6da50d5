"""The search over cuts: which layers make a stage, and what no cut can be below."""
