// Runs the page's engine without a browser: node engine_driver.js ENGINE < cases, a case and an answer a line.
const fs = require("fs");
const readline = require("readline");

const names = ["scheduleOf", "earliest", "timed", "reasons", "early", "gapsOf", "sensitivities", "legalPlaces", "openPlaces", "bestMove",
  "scheduleDocument", "slotText", "whyNot", "programRefusal", "moved", "taskOf"];
const program = fs.readFileSync(process.argv[2], "utf8");
const engine = new Function("window", `${program}\nreturn { ${names.join(", ")} };`)(globalThis);

function explained(s) {
  const text = (task) => (task < 0 ? null : engine.slotText(s, task));
  const { path, slack } = engine.reasons(s), begin = Math.min(...s.orders.filter((order) => order.length).map((order) => s.starts[order[0]]));
  return {
    path: path.map(text),
    slack: Object.fromEntries(s.orders.flat().map((task) => [text(task), slack[task]])),
    gaps: engine.gapsOf(s).map((gap) => [
      gap.device, gap.start - begin, gap.end - begin, gap.idle, text(gap.culprit), text(gap.waiting)]),
    sensitivity: engine.sensitivities(engine.early(s)),
    best: s.sent ? null : engine.bestMove(engine.early(s)).best,
    document: engine.scheduleDocument(s),
    legal: s.orders.slice(0, s.P).map((order) => order.map((task) => {
      const found = engine.legalPlaces(s, task);
      return [found.first, found.last];
    })),
  };
}

// The positions that are offered of each slot of device 0, the first and the last; and those that are not refused.
function offered(s) {
  return s.orders[0].map((task) => {
    const { first, last } = engine.openPlaces(s, task), places = s.orders[0].map((_, to) => to);
    return [first, last, places.filter((to) => !engine.whyNot(s, task, to) && !engine.programRefusal(s, task, to))];
  });
}

// What a move of an operation to a position does: why it is refused, or the document that it leaves.
function afterMove(loaded, [op, to]) {
  const s = engine.timed(loaded, loaded.orders), t = engine.taskOf(s, op);
  const refusal = engine.whyNot(s, t, to) || engine.programRefusal(s, t, to);
  if (refusal) return { refusal };
  const from = s.orders[s.machine[t]].indexOf(t), next = engine.timed(s, engine.moved(s.orders, s.machine[t], from, to));
  return { document: engine.scheduleDocument({ ...next, edits: 1 }) };
}

async function answer({ data, orders, explain, move, offers }) {
  const loaded = await engine.scheduleOf(data);
  if (offers) return { offers: offered(engine.timed(loaded, loaded.orders)) };
  if (move) return afterMove(loaded, move);
  const s = engine.timed(loaded, orders ? [...orders, ...loaded.orders.slice(data.problem.devices)] : loaded.orders);
  if (s.deadlock) return { deadlock: s.deadlock };
  const result = { starts: [...s.starts], ends: [...s.ends], pairs: [...s.pairs], waits: s.waits };
  if (!explain) return result;
  if (s.late) {
    s.listed.forEach((task, at) => { s.ends[task] = (s.starts[task] = s.late[at]) + s.duration[task]; });
    s.isLate = true;
  }
  return { ...result, ...explained(s) };
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
  }
})();
