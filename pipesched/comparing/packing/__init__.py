"""Documents into microbatches: baselines, a search, all packings where there are few, and a bound below every one."""
