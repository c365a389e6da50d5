// Runs the page's engine without a browser: node engine_driver.js ENGINE < cases, a case and an answer a line.
const fs = require("fs");
const readline = require("readline");

const names = ["graphOf", "earliest", "analysis", "idleGaps", "idleByClass", "sensitivities", "legalPlaces", "whyNot",
  "bestMove", "scheduleDocument", "timesDocument", "measures", "slotText", "taskOf", "opText"];
const engine = new Function(`${fs.readFileSync(process.argv[2], "utf8")}\nreturn { ${names.join(", ")} };`)();

function explained(graph, orders, times) {
  const early = engine.earliest(graph, orders);
  const known = engine.analysis(graph, orders, times);
  const text = (task) => (task < 0 ? null : engine.slotText(graph, task));
  const earlyKnown = engine.analysis(graph, orders, early);
  return {
    path: known.path.map(text),
    slack: Object.fromEntries(orders.flat().map((task) => [text(task), known.slack[task]])),
    gaps: engine.idleGaps(graph, orders, known).map((gap) => [
      gap.device, gap.start - known.begin, gap.end - known.begin, gap.idle, text(gap.culprit), text(gap.waiting)]),
    sensitivity: engine.sensitivities(graph, orders, earlyKnown),
    best: engine.bestMove(graph, orders, earlyKnown).best,
    document: engine.scheduleDocument(graph, orders, times, false),
    legal: orders.slice(0, graph.devices).map((order) => order.map((task) => {
      const found = engine.legalPlaces(graph, orders, task, times);
      return [found.first, found.last];
    })),
  };
}

async function answer({ data, orders, explain }) {
  const graph = await engine.graphOf(data);
  const given = orders ? [...orders, ...graph.orders.slice(graph.devices)] : graph.orders;
  const times = engine.earliest(graph, given);
  if (times.deadlock) return { deadlock: times.deadlock };
  const result = { starts: [...times.starts], ends: [...times.ends], pairs: [...graph.pairs], waits: graph.waits };
  if (!explain) return result;
  const late = { ...times };
  if (graph.loadedStarts) {
    let at = 0;
    late.starts = times.starts.slice();
    late.ends = times.ends.slice();
    for (const task of graph.orders.flat()) {
      late.starts[task] = graph.loadedStarts[at++];
      late.ends[task] = late.starts[task] + graph.duration[task];
    }
  }
  return { ...result, ...explained(graph, given, late) };
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
  }
})();
