// Pointer and keys, and what they do. Every selection and move says a sentence that begins with the operation.

const DRAG = 4, SNAP = 8; // pixels
let frame = 0, settling = 0, drawWhole = false;

// Draws at the next frame: all, or only what follows the pointer.
function redraw(whole = true) {
  drawWhole ||= whole;
  frame ||= requestAnimationFrame(drawAll);
}

function drawAll() {
  frame = 0;
  if (drawWhole) {
    drawChart();
    drawMap();
  }
  drawWhole = false;
  drawOverlay();
  if (pointer.inside && !gesture) showCursor();
}

// After a change of view, order or selection: draw at the next frame, and fill the tables once nothing moves.
function refresh({ relayout = false, soon = false } = {}) {
  if (relayout) layOut();
  if (view.whole && totalTime() > view.to) fitAll();
  showNumbers();
  redraw();
  writeLink(soon);
  clearTimeout(settling);
  settling = setTimeout(settle, isLarge(shown()) ? 400 : 80);
}

function settle() {
  for (const [key, name] of Object.entries({ p: "path", w: "idle", m: "memory", d: "marks", n: "hues" }))
    document.querySelector(`[data-key=${key}]`).setAttribute("aria-pressed", shows[name]);
  for (const name of ["path", "idle"]) $("legend").classList.toggle(name, shows[name]);
  for (const show of [showMetrics, showOperations, showDetails, showReasons, redraw]) show();
}

// What came of a change of a schedule or of the selection: it becomes the current one.
function tell(s, sentence) {
  current = s.index;
  shownGap = null;
  say(sentence);
  refresh();
}

function choose(s, t) {
  picked = { s, t };
  const slack = isLarge(s) ? "" : `, slack ${time(s, reasons(s).slack[t])}`, name = sheets.length > 1 ? `${s.name}, ` : "";
  tell(s, `${slotText(s, t)}, ${name}${placeText(s, t)}, runs from ${spanText(s, t)}${slack}.`);
}

const result = s => `makespan ${time(s, totals(s).makespan)}${difference(s)}`;

// Moves a slot and says what came of it; returns the refusal, or null.
function move(s, t, to) {
  const from = placeOf(s, t), name = slotText(s, t), device = s.machine[t], { isLate } = s, refusal = changeOrder(s, t, to);
  if (refusal || from === to) say(`${name} stays at position ${from}: ${refusal || "no change"}.`);
  else {
    picked = { s, t };
    const over = excess(s, device) ? ` Device ${device} is over its memory budget by ${short(excess(s, device) / s.grain)}.` : "";
    tell(s, `${name} moved from position ${from} to ${to} on device ${device}: ${result(s)}.${over}${isLate ? " All operations now start as early as they can." : ""}`);
  }
  return refusal;
}

function stepBack(edit, word) {
  if (edit) tell(edit.s, `${slotText(edit.s, edit.t)} is at position ${placeOf(edit.s, edit.t)} (${word}): ${result(edit.s)}.`);
  else say(`Nothing to ${word}.`);
  return Boolean(edit);
}

function chartPoint(event) {
  const box = $("chart").getBoundingClientRect(), { clientLeft, clientTop } = $("chart");
  return assign(pointer, { x: event.clientX - box.left - clientLeft, y: event.clientY - box.top - clientTop });
}

// The drop rule: before the first other slot whose middle, as drawn when the drag began, is right of the pointer.
function dropPlace({ others }, x) {
  const at = others.findIndex(other => (other.x + other.end) / 2 > x);
  return at < 0 ? others.length : at;
}

function beginDrag({ s, t, x }) {
  if (!ofDevice(s, t)) {
    say(`${slotText(s, t)} stays: it is ${inLane(s, t)}, and lanes keep their order.`);
    gesture = { kind: "none" };
    return;
  }
  if (fixed(s)) {
    say(`${slotText(s, t)} stays: ${fixed(s)}.`);
    gesture = { kind: "none" };
    return;
  }
  const others = s.orders[s.machine[t]].filter(other => other !== t).map(other => boxOf(s, other));
  gesture = { kind: "drag", s, t, others, legal: openPlaces(s, t), grip: x - boxOf(s, t).x };
  $("chart").classList.add("drag");
}

// The edge of a slot next to a point, as a time, if it is near; else the point's own time.
function snapped({ x, y }) {
  const row = rowAt(y), near = [];
  for (const t of row ? slotsNear(row, timeAt(x)) : []) near.push(row.s.starts[t] / row.s.per, row.s.ends[t] / row.s.per);
  const away = value => abs(xOf(value) - x);
  near.sort((a, b) => away(a) - away(b));
  return near.length && away(near[0]) < SNAP ? near[0] : timeAt(x);
}

function onDown(event) {
  if (event.button || gesture) return;
  const { x, y } = chartPoint(event), hit = slotAt(x, y);
  pointer.inside = true;
  $("chart").focus({ preventScroll: true });
  try { $("chart").setPointerCapture(event.pointerId); } catch { /* a pointer that is gone */ }
  if (event.shiftKey) gesture = { kind: "measure", start: snapped(pointer), end: snapped(pointer) };
  else gesture = hit ? { kind: "press", s: hit.s, t: hit.t, x, y } : { kind: "pan", x, from: view.from, to: view.to };
  event.preventDefault();
}

function onMove(event) {
  const { x, y } = chartPoint(event);
  pointer.inside = true;
  if (!gesture) $("chart").classList.toggle("over", Boolean(slotAt(x, y)));
  else if (gesture.kind === "press" && Math.hypot(x - gesture.x, y - gesture.y) > DRAG) beginDrag(gesture);
  else if (gesture.kind === "measure") gesture.end = snapped(pointer);
  else if (gesture.kind === "pan") {
    const shift = (gesture.x - x) * perPixel();
    setWindow(gesture.from + shift, gesture.to + shift);
    refresh({ soon: true });
  }
  redraw(false);
}

function onUp(event) {
  const { kind, s, t, start, end } = gesture || {}, done = gesture;
  endGesture();
  const { x } = chartPoint(event), text = value => short(value, 6);
  if (kind === "press") choose(s, t);
  if (kind === "drag") move(s, t, dropPlace(done, x));
  if (kind === "measure") say(`Measured ${text(start)} to ${text(end)}: ${text(abs(end - start))}${unit}.`);
}

function endGesture() {
  gesture = null;
  $("chart").classList.remove("drag");
  redraw();
}

function cancelGesture() {
  const was = gesture;
  endGesture();
  if (was && was.kind === "drag") say(`${slotText(was.s, was.t)} stays: the drag is cancelled.`);
  return Boolean(was);
}

function onWheel(event) {
  event.preventDefault();
  if (gesture) return;
  const { deltaX, deltaY, shiftKey } = event, lines = event.deltaMode ? 16 : 1;
  if (shiftKey || abs(deltaX) > abs(deltaY)) pan((deltaX || deltaY) * lines * perPixel());
  else zoomBy(Math.exp(max(-300, min(300, deltaY * lines)) * 0.002), chartPoint(event).x);
  refresh({ soon: true });
}

// The selection, or the first operation of the current schedule.
const chosen = () => picked || { s: shown(), t: shown().orders.find(order => order.length)[0] };

function goTo(s, t) {
  revealTask(s, t);
  choose(s, t);
}

function beside(step) {
  const { s, t } = chosen(), next = picked ? s.orders[s.machine[t]][placeOf(s, t) + step] : t;
  if (next === undefined) say(`${slotText(s, t)} is the ${step < 0 ? "first" : "last"} here.`);
  else goTo(s, next);
}

function across(step) {
  const { s, t } = chosen(), middle = one => s.starts[one] + s.ends[one], away = one => abs(middle(one) - middle(t));
  if (!picked) { goTo(s, t); return; }
  for (let machine = s.machine[t] + step; s.orders[machine]; machine += step) {
    const [near] = slotsNear({ s, machine }, middle(t) / 2 / s.per).sort((a, b) => away(a) - away(b));
    if (near >= 0) { goTo(s, near); return; }
  }
}

function stepGap(step, bySize) {
  const s = shown(), gaps = bySize ? byLength(s) : gapsOf(s).slice().sort((a, b) => a.start - b.start || a.device - b.device);
  if (!gaps.length) { say("No device idles."); return; }
  const at = shownGap ? gaps.indexOf(shownGap.gap) : step > 0 ? -1 : 0, gap = gaps[(at + step + gaps.length) % gaps.length];
  shownGap = { s, gap };
  reveal(gap.start / s.per, gap.end / s.per);
  say(`${gapSentence(s, gap)}.`);
}

function why() {
  shows.idle = !shows.idle;
  if (!picked) { say(shows.idle ? "Idle time is shaded by its class." : "Idle time is not shaded."); return; }
  const { s, t } = picked, { heldBy, slack } = reasons(s), chain = [];
  for (let at = heldBy(t); at >= 0; at = heldBy(at)) chain.push(at);
  const more = chain.length > 8 ? `, and ${chain.length - 8} before` : "", texts = chain.slice(0, 8).map(one => slotText(s, one));
  say(`${slotText(s, t)} waits for ${chain.length ? texts.join(", for ") + more : "nothing"}; slack ${time(s, slack[t])}.`);
}

function improve() {
  const s = shown(), { best, complete } = fixed(s) ? {} : bestMove(early(s));
  if (best) move(s, best.task, best.to);
  else say(fixed(s) ? `Nothing moves: ${fixed(s)}.` : `No ${complete ? "single move" : "move of those that were timed"} shortens it.`);
}

function keepCopy() {
  const s = shown(), copy = { ...s, name: `${s.name} (kept)`, cache: {} };
  addSheet(copy);
  say(`${s.name} is kept as schedule ${copy.index}; links leave it out.`);
}

function nudge(step) {
  const { s, t } = chosen();
  move(s, t, placeOf(s, t) + step);
}

function jump(text) {
  const s = [shown(), ...sheets].find(one => taskOf(one, text) >= 0);
  if (s) goTo(s, taskOf(s, text));
  else say(`${text}: no such operation.`);
}

function switchTo(index) {
  picked = null;
  tell(sheets[index], `Schedule ${index}, ${sheets[index].name}: ${result(sheets[index])}.`);
}

const toggle = name => () => { shows[name] = !shows[name]; };
const KEYS = { // as page.html lists them
  "ArrowLeft h": () => beside(-1), "ArrowRight l": () => beside(1), "ArrowUp k": () => across(-1), "ArrowDown j": () => across(1),
  "<": () => nudge(-1), ">": () => nudge(1), "[": () => stepGap(-1), "]": () => stepGap(1), "{": () => stepGap(-1, true), "}": () => stepGap(1, true),
  "/": () => { $("goto").value = ""; $("jump").showModal(); },
  "+ =": () => zoomBy(1 / 1.5), "-": () => zoomBy(1.5), 0: fitAll,
  f: () => revealTask(chosen().s, chosen().t, plotWidth() / 8),
  p: toggle("path"), w: why, m: toggle("memory"), d: toggle("marks"), n: toggle("hues"), x: improve, c: keepCopy, s: () => download(),
  u: () => stepBack(undoEdit(), "undo"), "r Ctrl-R": () => stepBack(redoEdit(), "redo"), "?": () => $("help").showModal(),
};

function pressKey(key) {
  const found = Object.keys(KEYS).find(names => names.split(" ").includes(key));
  if (!found) return false;
  KEYS[found]();
  refresh({ relayout: "mc".includes(key) });
  return true;
}

function onKey(event) {
  const isThird = event.getModifierState("AltGraph"), isControl = event.ctrlKey && !isThird; // { and [ of some keyboards
  if (event.target !== $("chart") || (event.altKey && !isThird) || event.metaKey) return;
  const { key, shiftKey } = event, next = key === "Tab" ? current + (shiftKey ? -1 : 1) : -1;
  if (key === "Escape") {
    if (cancelGesture() || !picked) return;
    say(`${slotText(picked.s, picked.t)} is no longer selected.`);
    picked = shownGap = null;
    refresh();
  } else if (gesture) event.preventDefault();
  else if (sheets[next]) switchTo(next); // from the last schedule on, Tab leaves the chart
  else if (shiftKey && /^Arrow(Left|Right)$/.test(key)) pan(((key === "ArrowLeft" ? -1 : 1) * (view.to - view.from)) / 5);
  else if (key === "Tab" || isControl !== (key === "r") || !pressKey(key)) return; // Ctrl-R, and nothing else with Ctrl
  event.preventDefault();
  refresh({ soon: true });
}
