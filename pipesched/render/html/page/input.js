// Pointer and keys, and what they do. Every selection and move says a sentence that begins with the operation.

let frame = 0, settling = 0, cursorMoved = false;

function redraw() {
  if (!frame) frame = requestAnimationFrame(() => { frame = 0; drawAll(); });
}

function drawAll() {
  drawChart();
  drawOverlay();
  drawMap();
  followCursor();
}

function followCursor() {
  if (cursorMoved && !gesture) showCursor();
  cursorMoved = false;
}

// After a change of view, order or selection: draw at the next frame, and fill the tables once nothing moves.
function refresh({ relayout = false, link = "now" } = {}) {
  if (relayout) layOut();
  if (view.whole && totalTime() > view.to) fitAll();
  showNumbers();
  redraw();
  if (link === "now") writeLink();
  else writeLinkSoon();
  clearTimeout(settling);
  settling = setTimeout(settle, sheets[current].operations > LARGE ? 400 : 80);
}

function settle() {
  for (const button of document.querySelectorAll("[aria-pressed]")) {
    button.setAttribute("aria-pressed", { p: shows.path, w: shows.idle, m: shows.memory, d: shows.marks }[button.dataset.key]);
  }
  showMetrics();
  showOperations();
  showDetails();
  showReasons();
  showLegend();
  redraw();
}

function choose(sheet, task) {
  selection = { sheet: sheet.index, task };
  current = sheet.index;
  shownGap = null;
  const found = sheet.operations > LARGE ? null : known(sheet);
  say(`${textOf(sheet, task)}, ${sheets.length > 1 ? `${sheet.name}, ` : ""}${placeText(sheet, task)}, runs from ${timeText(sheet, sheet.times.starts[task])} to ${timeText(sheet, sheet.times.ends[task])}${found ? `, slack ${timeText(sheet, found.slack[task])}` : ""}.`);
  refresh();
}

// Moves a slot and says what came of it; returns the refusal, or null.
function move(sheet, task, to) {
  const from = placeOf(sheet, task), name = textOf(sheet, task), wasLate = sheet.times.isLate;
  const refusal = changeOrder(sheet, task, to);
  if (refusal) say(`${name} stays at position ${from}: ${refusal}.`);
  else if (from === to) say(`${name} stays at position ${from}: no change.`);
  else {
    selection = { sheet: sheet.index, task };
    current = sheet.index;
    const device = sheet.graph.machine[task], { capacity, perGrain } = sheet.graph.data;
    const more = capacity[device] === null ? 0 : peakOf(stepsOf(sheet, device)) - capacity[device];
    const over = more > 0 ? ` Device ${device} is over its memory budget by ${numberText(more / perGrain)}.` : "";
    const early = wasLate ? " All operations now start as early as they can." : "";
    say(`${name} moved from position ${from} to ${to} on device ${device}: makespan ${timeText(sheet, sheet.got.makespan)}${difference(sheet)}.${over}${early}`);
    refresh();
  }
  return refusal;
}

function stepBack(edit, word) {
  if (!edit) { say(`Nothing to ${word}.`); return false; }
  const { sheet, task } = edit;
  current = sheet.index;
  say(`${textOf(sheet, task)} is at position ${placeOf(sheet, task)} (${word}): makespan ${timeText(sheet, sheet.got.makespan)}${difference(sheet)}.`);
  refresh();
  return true;
}

const chartPoint = (event) => {
  const box = $("chart").getBoundingClientRect();
  return { x: event.clientX - box.left - $("chart").clientLeft, y: event.clientY - box.top - $("chart").clientTop };
};

// The drop rule: before the first other slot whose middle, as drawn when the drag began, is right of the pointer.
function dropPlace({ others }, x) {
  const at = others.findIndex((other) => other.middle > x);
  return at < 0 ? others.length : at;
}

function beginDrag(press, x) {
  const { sheet, task } = press.hit, machine = sheet.graph.machine[task];
  if (!isDevice(sheet.graph, machine)) {
    say(`${textOf(sheet, task)} stays: it is a transfer, and lanes keep their order.`);
    gesture = { kind: "none" };
    return;
  }
  const per = sheet.graph.data.perUnit, { starts, ends } = sheet.times;
  const others = sheet.orders[machine].filter((other) => other !== task).map((other) => {
    const from = xOf(starts[other] / per), to = xOf(ends[other] / per);
    return { x: from, end: to, middle: (from + to) / 2 };
  });
  gesture = { kind: "drag", sheet, task, others, legal: legalPlaces(sheet.graph, sheet.orders, task, sheet.times), grip: press.x - xOf(starts[task] / per), x };
  $("chart").classList.add("drag");
}

// The edge of a slot of the row next to a point, as a time, if it is near; else the point's own time.
function snapped(x, y) {
  const row = rowAt(y), near = [];
  if (row && row.machine >= 0) {
    const { sheet } = row, order = sheet.orders[row.machine], at = firstAfter(sheet, order, timeAt(x) * sheet.graph.data.perUnit);
    for (const task of [order[at - 1], order[at], order[at + 1]]) {
      if (task !== undefined) near.push(unitsOf(sheet, sheet.times.starts[task]), unitsOf(sheet, sheet.times.ends[task]));
    }
  }
  near.sort((a, b) => Math.abs(xOf(a) - x) - Math.abs(xOf(b) - x));
  return near.length && Math.abs(xOf(near[0]) - x) < 8 ? near[0] : timeAt(x);
}

function onDown(event) {
  if (event.button || gesture) return;
  const { x, y } = chartPoint(event);
  Object.assign(pointer, { x, y, inside: true });
  $("chart").focus({ preventScroll: true });
  try { $("chart").setPointerCapture(event.pointerId); } catch { /* a pointer that is gone */ }
  const hit = slotAt(x, y);
  if (event.shiftKey) gesture = { kind: "measure", start: snapped(x, y), end: snapped(x, y) };
  else gesture = hit ? { kind: "press", hit, x, y } : { kind: "pan", x, from: view.from, to: view.to };
  event.preventDefault();
}

function onMove(event) {
  const { x, y } = chartPoint(event);
  Object.assign(pointer, { x, y, inside: true });
  cursorMoved = true;
  if (gesture && gesture.kind === "press" && Math.hypot(x - gesture.x, y - gesture.y) > 4) beginDrag(gesture, x);
  if (gesture && gesture.kind === "measure") gesture.end = snapped(x, y);
  if (gesture && gesture.kind === "pan") {
    const shift = (gesture.x - x) * perPixel();
    setWindow(gesture.from + shift, gesture.to + shift);
    refresh({ link: "soon" });
  } else if (!frame) frame = requestAnimationFrame(() => { frame = 0; drawOverlay(); followCursor(); });
  if (!gesture) $("chart").classList.toggle("over", Boolean(slotAt(x, y)));
}

function onUp(event) {
  const done = gesture;
  gesture = null;
  $("chart").classList.remove("drag");
  if (!done) return;
  const { x } = chartPoint(event);
  if (done.kind === "press") choose(done.hit.sheet, done.hit.task);
  if (done.kind === "drag") move(done.sheet, done.task, dropPlace(done, x));
  if (done.kind === "measure") say(`Measured ${numberText(Number(done.start.toPrecision(6)))} to ${numberText(Number(done.end.toPrecision(6)))}: ${numberText(Number(Math.abs(done.end - done.start).toPrecision(6)))}${unitName()}.`);
  redraw();
}

function cancelGesture() {
  const was = gesture;
  gesture = null;
  $("chart").classList.remove("drag");
  if (was && was.kind === "drag") say(`${textOf(was.sheet, was.task)} stays: the drag is cancelled.`);
  redraw();
  return Boolean(was);
}

function onWheel(event) {
  event.preventDefault();
  if (gesture) return;
  const { x } = chartPoint(event), lines = event.deltaMode ? 16 : 1;
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) * lines * perPixel());
  else zoomBy(Math.exp(Math.max(-300, Math.min(300, event.deltaY * lines)) * 0.002), x);
  refresh({ link: "soon" });
}

// The selection, or the first operation of the current schedule.
function chosen() {
  if (selection) return [sheets[selection.sheet], selection.task];
  return [sheets[current], sheets[current].orders.find((order) => order.length)[0]];
}

function goTo(sheet, task) {
  reveal(sheet, task);
  choose(sheet, task);
}

function beside(step) {
  const [sheet, task] = chosen();
  if (!selection) { goTo(sheet, task); return; }
  const next = sheet.orders[sheet.graph.machine[task]][placeOf(sheet, task) + step];
  if (next === undefined) say(`${textOf(sheet, task)} is the ${step < 0 ? "first" : "last"} here.`);
  else goTo(sheet, next);
}

function across(step) {
  const [sheet, task] = chosen(), middle = (one) => sheet.times.starts[one] + sheet.times.ends[one];
  if (!selection) { goTo(sheet, task); return; }
  for (let machine = sheet.graph.machine[task] + step; sheet.orders[machine]; machine += step) {
    const order = sheet.orders[machine], at = firstAfter(sheet, order, middle(task) / 2);
    const near = order.slice(Math.max(at - 1, 0), at + 2).sort((a, b) => Math.abs(middle(a) - middle(task)) - Math.abs(middle(b) - middle(task)));
    if (near.length) { goTo(sheet, near[0]); return; }
  }
}

function stepGap(step, bySize) {
  const sheet = sheets[current], gaps = bySize ? byLength(sheet) : gapsOf(sheet).slice().sort((a, b) => a.start - b.start || a.device - b.device);
  if (!gaps.length) { say("No device idles."); return; }
  const at = shownGap ? gaps.findIndex((gap) => gap.device === shownGap.gap.device && gap.start === shownGap.gap.start) : step > 0 ? -1 : 0;
  const gap = gaps[(at + step + gaps.length) % gaps.length], per = sheet.graph.data.perUnit;
  shownGap = { sheet, gap };
  if (gap.start / per < view.from || gap.end / per > view.to) pan((gap.start + gap.end) / 2 / per - (view.from + view.to) / 2);
  say(`${gapSentence(sheet, gap)}.`);
  refresh();
}

function why() {
  shows.idle = !shows.idle;
  if (!selection) { say(shows.idle ? "Idle time is shaded by its class." : "Idle time is not shaded."); return; }
  const [sheet, task] = chosen(), found = known(sheet), chain = [];
  for (let at = found.heldBy(task); at >= 0; at = found.heldBy(at)) chain.push(at);
  const more = chain.length > 8 ? `, and ${chain.length - 8} before` : "";
  say(`${textOf(sheet, task)} waits for ${chain.length ? chain.slice(0, 8).map((one) => textOf(sheet, one)).join(", for ") + more : "nothing"}; slack ${timeText(sheet, found.slack[task])}.`);
}

function improve() {
  const sheet = sheets[current], { best, complete } = bestMove(sheet.graph, sheet.orders, earlyKnown(sheet));
  if (best) move(sheet, best.task, best.to);
  else say(complete ? "No single move shortens it." : "No move of those that were timed shortens it.");
}

function keepCopy() {
  const sheet = sheets[current], copy = addSheet(sheet.graph, `${sheet.name} (kept)`, sheet.orders, sheet.times);
  say(`${sheet.name} is kept as schedule ${copy.index}; links leave it out.`);
}

function nudge(step) {
  const [sheet, task] = chosen();
  move(sheet, task, placeOf(sheet, task) + step);
}

function jump(text) {
  const sheet = [sheets[current], ...sheets].find((one) => taskOf(one.graph, text) >= 0);
  if (sheet) goTo(sheet, taskOf(sheet.graph, text));
  else say(`${text}: no such operation.`);
}

const toggle = (name) => () => { shows[name] = !shows[name]; };
const KEYS = { // key: [what it does, how, whether rows change]
  "ArrowLeft h": ["operation before", () => beside(-1)], "ArrowRight l": ["operation after", () => beside(1)],
  "ArrowUp k": ["nearest on the device above", () => across(-1)], "ArrowDown j": ["nearest on the device below", () => across(1)],
  "<": ["move the operation one position earlier", () => nudge(-1)], ">": ["one position later", () => nudge(1)],
  "[": ["gap before", () => stepGap(-1)], "]": ["next gap", () => stepGap(1)],
  "{": ["larger gap", () => stepGap(-1, true)], "}": ["next largest gap", () => stepGap(1, true)],
  "/": ["go to an operation", () => { $("goto").value = ""; $("jump").showModal(); }],
  "+ =": ["zoom in", () => zoomBy(1 / 1.5)], "-": ["zoom out", () => zoomBy(1.5)], 0: ["all", () => fitAll()],
  f: ["zoom to the selection", () => reveal(...chosen(), plotWidth() / 8)],
  p: ["critical path", toggle("path")], w: ["why: idle time by class, and what the selection waits for", why],
  m: ["memory", toggle("memory"), true], d: ["dependencies of the selection", toggle("marks")],
  x: ["best move", improve], c: ["keep a copy for comparison", keepCopy, true],
  u: ["undo", () => stepBack(undoEdit(), "undo")], "r Ctrl-R": ["redo", () => stepBack(redoEdit(), "redo")],
  s: ["download JSON", () => download()], "?": ["these keys", () => $("help").showModal()],
};

function pressKey(key) {
  const found = Object.entries(KEYS).find(([names]) => names.split(" ").includes(key));
  if (!found) return false;
  found[1][1]();
  refresh({ relayout: Boolean(found[1][2]) });
  return true;
}

function onKey(event) {
  const isThird = event.getModifierState("AltGraph"), isControl = event.ctrlKey && !isThird; // { and [ of some keyboards
  if (event.target !== $("chart") || (event.altKey && !isThird) || event.metaKey) return;
  if (event.key === "Escape") {
    if (!cancelGesture() && selection) { say(`${textOf(...chosen())} is no longer selected.`); selection = shownGap = null; refresh(); }
    return;
  }
  if (gesture) { event.preventDefault(); return; }
  const switched = event.key === "Tab" ? current + (event.shiftKey ? -1 : 1) : -1;
  if (sheets[switched]) { // from the last schedule on, Tab leaves the chart
    current = switched;
    selection = null;
    say(`Schedule ${current}, ${sheets[current].name}: makespan ${timeText(sheets[current], sheets[current].got.makespan)}.`);
    refresh();
  } else if (event.shiftKey && /^Arrow(Left|Right)$/.test(event.key)) {
    pan(((event.key === "ArrowLeft" ? -1 : 1) * (view.to - view.from)) / 5);
    refresh({ link: "soon" });
  } else if (event.key === "Tab" || isControl !== (event.key === "r")) return; // Ctrl-R, and nothing else with Ctrl
  else if (!pressKey(event.key)) return;
  event.preventDefault();
}
