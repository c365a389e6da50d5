"""Why a schedule is as long as it is, and what would change it: `pipesched.explain`."""
