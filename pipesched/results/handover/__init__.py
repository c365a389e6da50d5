"""Hand-over of a schedule to a training framework: what to paste into its command line, config or code."""
