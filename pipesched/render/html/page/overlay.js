// The canvas above the chart: what follows the pointer and the selection.

const pointer = { x: -1, y: -1, inside: false };
let over;
let gesture = null; // a press, drag, pan or measure under way
let shownGap = null; // {s, gap} that [ ] and { } went to

function frameBox(pen, colour, thick, x, y, width, height) {
  assign(pen, { strokeStyle: colour, lineWidth: thick });
  pen.strokeRect(x, y, width, height);
}

function drawOverlay() {
  over = fitCanvas($("over"), scene.width, scene.height);
  over.clearRect(0, 0, scene.width, scene.height);
  within(over, 0, scene.height, () => {
    const hover = pointer.inside && !gesture ? slotAt(pointer.x, pointer.y) : null;
    if (hover || picked) drawMicrobatch(hover || picked);
    for (const [one, thick] of [[picked, 3], [hover, 1.5]]) {
      if (!one) continue;
      const { x, y, width, height } = boxOf(one.s, one.t);
      frameBox(over, ink.bg, thick + 2, x - 0.5, y - 0.5, width, height + 1);
      frameBox(over, ink.link, thick, x - 0.5, y - 0.5, width, height + 1);
      drawArrows(one);
    }
    if (shownGap) {
      const { s, gap } = shownGap, row = rowOn(s, gap.device), x = xOf(gap.start / s.per);
      frameBox(over, ink.accent, 2.5, x, row.top - 1, xOf(gap.end / s.per) - x, row.height + 2);
    }
    if (gesture) ({ drag: drawDrag, measure: drawMeasure }[gesture.kind] || (() => {}))();
    else if (pointer.inside && pointer.x >= scene.left) drawCursor();
  });
}

// The same microbatch in all schedules, where slots are few enough to see it.
function drawMicrobatch({ s: chosen, t: task }) {
  const microbatch = microbatchOf(chosen, task);
  if (microbatch < 0) return;
  for (const row of scene.rows) {
    const { s } = row, tasks = tasksSeen(row);
    for (const t of tasks.length > 2000 ? [] : tasks) {
      if (!partsOf(s, t).some(part => microbatchOf(s, part) === microbatch)) continue;
      const { x, y, width, height } = boxOf(s, t, row);
      for (const edge of [y - 1, y + height - 1]) fill(over, ink.fg, x, edge, max(width - 1, 1), 2);
    }
  }
}

// Arrows from what a slot waits for, the one that binds thick; and, if asked, to what waits for it, dashed.
function drawArrows({ s, t }) {
  const arrow = (from, to, thick, dash) => {
    const a = boxOf(s, from), b = boxOf(s, to), [x, y, u, v] = [a.end, a.y + a.height / 2, b.x, b.y + b.height / 2];
    const angle = Math.atan2(v - y, u - x);
    assign(over, { strokeStyle: ink.link, fillStyle: ink.link, lineWidth: thick });
    over.setLineDash(dash);
    over.beginPath();
    over.moveTo(x, y);
    over.lineTo(u, v);
    over.stroke();
    over.setLineDash([]);
    over.beginPath();
    over.moveTo(u, v);
    for (const side of [0.4, -0.4]) over.lineTo(u - 8 * Math.cos(angle + side), v - 8 * Math.sin(angle + side));
    over.fill();
  };
  for (const input of inputsOf(s, t)) if (input.what !== "order") arrow(input.t, t, input.binds ? 2.5 : 1, []);
  if (!shows.marks) return;
  const { first, before } = usersOf(s);
  for (let arc = first[t]; arc < first[t + 1]; arc++) arrow(t, before[arc], 1, [4, 3]);
}

function drawDrag() {
  const { s, t, legal, others, grip } = gesture, { top, height } = rowOn(s, s.machine[t]);
  const edge = at => (at < others.length ? others[at].x : others.length ? others[others.length - 1].end : scene.left);
  const from = edge(legal.first) - 4, to = edge(legal.last) + 4, place = dropPlace(gesture, pointer.x);
  const allowed = place >= legal.first && place <= legal.last, colour = allowed ? ink.link : ink.bad;
  fill(over, ink.link, from, top - 4, to - from, height + 8, 0.22);
  for (const x of [from, to - 2]) fill(over, ink.link, x, top - 4, 2, height + 8);
  fill(over, colour, edge(place) - 1.5, top - 6, 3, height + 12);
  const { width } = boxOf(s, t);
  fill(over, css(s.colour[t]), pointer.x - grip, top - 3, width, height, 0.75);
  over.setLineDash(allowed ? [] : [4, 3]);
  frameBox(over, colour, 2, pointer.x - grip, top - 3, width, height);
  over.setLineDash([]);
}

function drawMeasure() {
  const from = xOf(gesture.start), to = xOf(gesture.end);
  fill(over, ink.accent, from, AXIS, to - from, scene.height, 0.15);
  for (const x of [from, to]) fill(over, ink.accent, x - 0.5, AXIS - 8, 1.5, scene.height);
  label(`${short(abs(gesture.end - gesture.start))}${unit}`, (from + to) / 2);
}

const label = (text, x) => write(over, text, min(max(x, scene.left + 20), scene.width - 20), AXIS + 8, { bold: "bold", align: "center", ground: ink.bg });

function drawCursor() {
  const { x } = pointer, right = x < scene.width * 0.65, value = timeAt(x);
  fill(over, ink.dim, round(x), AXIS - 8, 1, scene.height);
  label(short(value, 5), x);
  const hit = slotAt(x, pointer.y), row = hit && isMessage(hit.s, hit.t) && rowAt(pointer.y);
  for (const { s, device, kind, top, height } of scene.rows) {
    if (kind !== "device" || height < 12) continue;
    const style = { size: 10, align: right ? "left" : "right", ground: ink.bg, alpha: 0.85 };
    write(over, cursorText(s, device, value), x + (right ? 6 : -6), top + height / 2, style);
  }
  if (!row) return;
  const text = messageText(hit.s, hit.t), left = max(min(x + 6, scene.width - 7 * text.length), scene.left + 4);
  write(over, text, left, row.top + row.height + 9, { bold: "bold", ground: ink.bg });
}

// What a device does at a time, its memory, and the class where it idles: "2F0 · 1.5" or "wait · 2".
function cursorText(s, device, value) {
  const ticks = value * s.per, order = s.orders[device], t = order[firstAfter(s, order, value)];
  const { times, levels } = memoryOf(s, device), memory = short((levels[lastAtMost(times, ticks)] || 0) / s.grain, 4);
  const gap = isAtRest(s) && gapsOn(s, device).find(one => one.start <= ticks && one.end > ticks);
  const runs = t >= 0 && s.starts[t] <= ticks;
  return `${runs ? partsOf(s, t).map(part => opText(s, part)).join("&") : gap ? page.idle[gap.idle][0] : "idle"} · ${memory}`;
}

// What a task waits for: {t, what (input, wait edge or order), there (ticks), binds}.
function inputsOf(s, t) {
  const found = [], before = s.orders[s.machine[t]][placeOf(s, t) - 1];
  const add = (from, what, lag) => found.push({ t: from, what, lag, there: s.ends[from] + lag });
  for (let arc = s.first[t]; arc < s.first[t + 1]; arc++) add(s.before[arc], s.isInput[arc] ? "input" : isMessage(s, t) || isMessage(s, s.before[arc]) ? "queue" : "wait edge", s.lag[arc]);
  if (before >= 0) add(before, "order", 0);
  const [last] = [...found].sort((a, b) => b.there - a.there || (b.what === "input") - (a.what === "input") || b.lag - a.lag);
  if (last && last.there > totals(s).begin) last.binds = true;
  return found;
}
