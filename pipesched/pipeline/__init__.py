"""Problem, layers, plan, check and bounds of pipeline-parallel training, a folder each."""
