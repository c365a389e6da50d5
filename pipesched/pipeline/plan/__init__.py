"""Orders become times: Plan, its lowering to precedences, Schedule and its metrics."""
