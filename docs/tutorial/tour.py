"""What the command line does, in Python: every step of a plan with public names only. Writes into the folder named."""

import sys
from pathlib import Path
from threading import Event

import pipesched

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tour")
folder.mkdir(exist_ok=True)
problem = pipesched.load("configs/uneven-llm.yaml", microbatches=12)
for algorithm in ("naive", "1f1b", "zb-h1"):
    outcome = pipesched.run(problem, algorithm)
    print(f"{algorithm}: {outcome.schedule.makespan} {problem.time_unit}, bubble {outcome.schedule.bubble:.1%}")
comparison = pipesched.compare(problem, ["naive", "1f1b", "interleaved", "zb-h1"])
print("best:", comparison.best.algorithm, "of", [entry.algorithm for entry in comparison if entry.applicable])
stop = Event()  # set it from any thread, and the search ends with the best so far
solved = pipesched.solve(pipesched.load("configs/uneven-llm.yaml", budget=40), time_limit=10, stop=stop)
print(solved.report)
frontier = pipesched.frontier(pipesched.load(devices=2, stages=2, microbatches=4), time_limit=10)
print(frontier)
small = pipesched.make_problem(devices=2, microbatches=2, forward=1.5, backward=3)
plan = pipesched.plan(small, [["0F0", "0F1", "0B0", "0B1"], "1F0 1B0 1F1 1B1"])
schedule = pipesched.schedule_plan(small, plan)
print(schedule, "breaks", pipesched.check(schedule) or "no rule")
for result, name in ((schedule, "plan.json"), (outcome, "plan.csv"), (outcome, "plan.svg"), (frontier, "front.json")):
    pipesched.write(result, folder / name, force=True)
for name in ("plan.json", "plan.csv", "front.json"):
    print(name, "holds", pipesched.read(folder / name, problem=problem if name.endswith("csv") else None))
