"""The order in which microbatches that differ are fed: rules, searches, and the timing of many orders at once."""
