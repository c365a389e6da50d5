// The canvas above the chart: what follows the pointer and the selection.

const pointer = { x: -1, y: -1, inside: false };
let gesture = null; // a press, drag, pan or measure under way
let shownGap = null; // {sheet, gap} that [ ] and { } went to

function drawOverlay() {
  over = fitCanvas($("over"), scene.width, scene.height);
  over.clearRect(0, 0, scene.width, scene.height);
  over.save();
  over.beginPath();
  over.rect(scene.left - 2, 0, plotWidth() + 4, scene.height);
  over.clip();
  const hover = gesture ? null : pointer.inside ? slotAt(pointer.x, pointer.y) : null;
  const chosen = selection && { sheet: sheets[selection.sheet], task: selection.task };
  const lit = hover || chosen;
  if (lit) drawMicrobatch(lit);
  if (chosen) drawFrame(chosen, 3);
  if (hover) drawFrame(hover, 1.5);
  for (const one of [chosen, hover]) if (one) drawArrows(one, shows.marks);
  if (shownGap) drawShownGap();
  if (gesture && gesture.kind === "drag") drawDrag();
  if (gesture && gesture.kind === "measure") drawMeasure();
  else if (pointer.inside && !gesture && pointer.x >= scene.left) drawCursor();
  over.restore();
}

const visibleTasks = (row) => {
  const { sheet } = row, order = sheet.orders[row.machine], per = sheet.graph.data.perUnit, found = [];
  for (let at = firstAfter(sheet, order, view.from * per); at < order.length; at++) {
    if (sheet.times.starts[order[at]] > view.to * per) break;
    found.push(order[at]);
  }
  return found;
};

// The same microbatch in all schedules.
function drawMicrobatch({ sheet, task }) {
  const microbatch = microbatchOf(sheet.graph, task);
  over.fillStyle = ink.fg;
  for (const row of scene.rows) {
    if (row.machine < 0) continue;
    const { graph } = row.sheet;
    if (((view.to - view.from) * graph.data.perUnit * row.sheet.orders[row.machine].length) / Math.max(row.sheet.got.makespan, 1) > 2000) continue;
    for (const other of visibleTasks(row)) {
      const backward = graph.pairs.get(other);
      if (microbatchOf(graph, other) !== microbatch && (backward === undefined || microbatchOf(graph, backward) !== microbatch)) continue;
      const box = boxOf(row.sheet, other);
      over.fillRect(box.x, box.y - 1, Math.max(box.width - 1, 1), 2);
      over.fillRect(box.x, box.y + box.height - 1, Math.max(box.width - 1, 1), 2);
    }
  }
}

function drawFrame({ sheet, task }, thick) {
  const box = boxOf(sheet, task);
  over.strokeStyle = ink.bg;
  over.lineWidth = thick + 2;
  over.strokeRect(box.x - 0.5, box.y - 0.5, box.width, box.height + 1);
  over.strokeStyle = ink.link;
  over.lineWidth = thick;
  over.strokeRect(box.x - 0.5, box.y - 0.5, box.width, box.height + 1);
}

// Arrows from what a slot waits for, the one that binds thick; with `users` also to what waits for it, dashed.
function drawArrows({ sheet, task }, users) {
  const { graph } = sheet, at = (one, end) => {
    const box = boxOf(sheet, one);
    return [box.x + (end ? box.width : 0), box.y + box.height / 2];
  };
  const arrow = (from, to, thick, dash) => {
    const [x, y] = at(from, true), [u, v] = at(to, false);
    over.strokeStyle = over.fillStyle = ink.link;
    over.lineWidth = thick;
    over.setLineDash(dash);
    over.beginPath();
    over.moveTo(x, y);
    over.lineTo(u, v);
    over.stroke();
    over.setLineDash([]);
    const angle = Math.atan2(v - y, u - x);
    over.beginPath();
    over.moveTo(u, v);
    for (const side of [0.4, -0.4]) over.lineTo(u - 8 * Math.cos(angle + side), v - 8 * Math.sin(angle + side));
    over.fill();
  };
  for (const input of inputsOf(sheet, task)) if (input.what !== "order") arrow(input.task, task, input.binds ? 2.5 : 1, []);
  if (!users) return;
  const { first, before } = usersOf(graph);
  for (let entry = first[task]; entry < first[task + 1]; entry++) arrow(task, before[entry], 1, [4, 3]);
}

function drawShownGap() {
  const { sheet, gap } = shownGap, row = rowOfMachine(sheet, gap.device), per = sheet.graph.data.perUnit;
  over.strokeStyle = ink.accent;
  over.lineWidth = 2.5;
  over.strokeRect(xOf(gap.start / per), row.top - 1, xOf(gap.end / per) - xOf(gap.start / per), row.height + 2);
}

function drawDrag() {
  const { sheet, task, legal, others } = gesture, row = rowOfMachine(sheet, sheet.graph.machine[task]);
  const edge = (position) => {
    if (!others.length) return scene.left;
    return position < others.length ? others[position].x : others[others.length - 1].end;
  };
  const [from, to] = [edge(legal.first), edge(legal.last)];
  over.fillStyle = ink.link;
  over.globalAlpha = 0.22;
  over.fillRect(Math.min(from, to) - 4, row.top - 4, Math.abs(to - from) + 8, row.height + 8);
  over.globalAlpha = 1;
  over.fillRect(Math.min(from, to) - 4, row.top - 4, 2, row.height + 8);
  over.fillRect(Math.max(from, to) + 2, row.top - 4, 2, row.height + 8);
  const place = dropPlace(gesture, pointer.x), allowed = place >= legal.first && place <= legal.last;
  over.fillStyle = allowed ? ink.link : ink.bad;
  over.fillRect(edge(place) - 1.5, row.top - 6, 3, row.height + 12);
  const box = boxOf(sheet, task);
  over.globalAlpha = 0.75;
  over.fillStyle = css(sheet.colours.first[task]);
  over.fillRect(pointer.x - gesture.grip, row.top - 3, box.width, row.height);
  over.globalAlpha = 1;
  over.strokeStyle = allowed ? ink.link : ink.bad;
  over.setLineDash(allowed ? [] : [4, 3]);
  over.lineWidth = 2;
  over.strokeRect(pointer.x - gesture.grip, row.top - 3, box.width, row.height);
  over.setLineDash([]);
}

function drawMeasure() {
  const [from, to] = [xOf(gesture.start), xOf(gesture.end)];
  over.fillStyle = ink.accent;
  over.globalAlpha = 0.15;
  over.fillRect(from, AXIS, to - from, scene.height);
  over.globalAlpha = 1;
  over.fillRect(from - 0.5, AXIS - 8, 1.5, scene.height);
  over.fillRect(to - 0.5, AXIS - 8, 1.5, scene.height);
  label(`${numberText(Math.abs(gesture.end - gesture.start))}${unitName()}`, (from + to) / 2, AXIS - 8);
}

function label(text, x, y) {
  over.font = "bold 11px system-ui, sans-serif";
  over.textAlign = "center";
  over.textBaseline = "middle";
  const half = over.measureText(text).width / 2 + 4, at = Math.min(Math.max(x, scene.left + half), scene.width - half);
  over.fillStyle = ink.bg;
  over.fillRect(at - half, y - 8, 2 * half, 16);
  over.fillStyle = ink.fg;
  over.fillText(text, at, y);
}

function drawCursor() {
  over.fillStyle = ink.dim;
  over.fillRect(Math.round(pointer.x), AXIS - 8, 1, scene.height);
  label(numberText(Number(timeAt(pointer.x).toPrecision(5))), pointer.x, 9);
  const right = pointer.x < scene.width * 0.65;
  for (const row of scene.rows) {
    if (row.kind !== "device" || row.height < 12) continue;
    const text = cursorText(row.sheet, row.device, timeAt(pointer.x));
    over.font = "10px system-ui, sans-serif";
    over.textAlign = right ? "left" : "right";
    over.textBaseline = "middle";
    const wide = over.measureText(text).width + 6, y = row.top + row.height / 2;
    over.globalAlpha = 0.85;
    over.fillStyle = ink.bg;
    over.fillRect(right ? pointer.x + 3 : pointer.x - 3 - wide, y - 7, wide, 14);
    over.globalAlpha = 1;
    over.fillStyle = ink.fg;
    over.fillText(text, pointer.x + (right ? 6 : -6), y);
  }
}

// What a device does at a time, its memory, and the class where it idles: "2F0 · 1.5" or "wait for 1F3 · 2".
function cursorText(sheet, device, time) {
  const { data } = sheet.graph, ticks = time * data.perUnit, order = sheet.orders[device];
  const task = order[firstAfter(sheet, order, ticks)], runs = task !== undefined && sheet.times.starts[task] <= ticks;
  const steps = stepsOf(sheet, device), at = lastAtMost(steps.times, ticks);
  const memory = numberText(Number(((at < 0 ? 0 : steps.levels[at]) / data.perGrain).toPrecision(4)));
  if (runs) return `${textOf(sheet, task)} · ${memory}`;
  if (ticks < 0 || ticks > sheet.got.end || (sheet.operations > LARGE && !("gaps" in sheet.cache))) return `idle · ${memory}`;
  const gap = gapsOn(sheet, device).find((one) => one.start <= ticks && one.end > ticks);
  return `${gap ? IDLE[gap.idle][0] : "idle"} · ${memory}`;
}

// What a task waits for: {task, what (input, order or wait edge), there (ticks), binds}.
function inputsOf(sheet, task) {
  const { graph } = sheet, found = [], order = sheet.orders[graph.machine[task]], at = placeOf(sheet, task);
  const there = (before, lag) => sheet.times.ends[before] + lag;
  for (let arc = graph.first[task]; arc < graph.first[task + 1]; arc++) {
    found.push({ task: graph.before[arc], what: graph.isInput[arc] ? "input" : "wait edge", there: there(graph.before[arc], graph.lag[arc]), lag: graph.lag[arc] });
  }
  if (at) found.push({ task: order[at - 1], what: "order", there: there(order[at - 1], 0), lag: 0 });
  const latest = Math.max(...found.map((input) => input.there)), last = found.filter((input) => input.there === latest);
  last.sort((a, b) => (a.what === "input" ? 0 : 1) - (b.what === "input" ? 0 : 1) || b.lag - a.lag);
  if (last.length && latest > sheet.got.begin) last[0].binds = true;
  return found;
}
