// Where things stand on the chart: rows, boxes, and what is under the pointer. All in CSS pixels of the chart.

const AXIS = 24, TITLE = 22, STRIP = 18, LAST = 6;
let scene = { rows: [], titles: [], width: 0, height: 0, left: 0 };

const totalRows = () => sheets.reduce((sum, s) => sum + s.P, 0);

function layOut() {
  const width = max($("chart").clientWidth, 200), rows = [], titles = [], count = totalRows();
  const high = max(count > 400 ? 3 : 8, min(30, floor(560 / count))), space = high > 12 ? 4 : 1;
  let top = AXIS;
  const add = (s, device, kind, height, gap, machine = -1, more = {}) => {
    rows.push({ s, device, kind, height, machine, top, ...more });
    top += height + gap;
  };
  for (const s of sheets) {
    titles.push({ s, top });
    top += TITLE;
    const hasLanes = lanePairs(s) > 0;
    for (let device = 0; device < s.P; device++) {
      add(s, device, "device", high, space, device);
      if (shows.memory) add(s, device, "memory", STRIP, space);
      const net = s.step ? firstNetwork(s) + device : -1, thin = high > 20 ? 11 : 7;
      if (net >= 0 && s.orders[net].length) add(s, device, "net", thin, space, net);
      for (const lane of s.sent ? messageLanes(s, device) : []) add(s, device, "msg", thin, space, -1, lane);
      if (!hasLanes) continue;
      for (const lane of [0, 1]) add(s, device, "lane", thin, 1, s.P + 2 * device + lane);
      top += space;
    }
    top += 4;
  }
  const rowOf = new Map(rows.map(row => [`${row.s.index} ${row.machine}`, row]));
  for (const { index, sent } of sheets) for (const line of sent ? sent.lines : []) rowOf.set(`${index} ${line.machine}`, rowOf.get(`${index} ${line.device}`));
  for (const row of rows) for (const line of row.lines || []) rowOf.set(`${row.s.index} ${line.machine}`, row);
  scene = { rows, titles, width, height: top + LAST, left: width < 560 ? 30 : sheets[0].names ? 104 : 74, rowOf };
}

const plotWidth = () => max(scene.width - scene.left - LAST, 50);
const perPixel = () => (view.to - view.from) / plotWidth();
const xOf = value => scene.left + (value - view.from) / perPixel();
const timeAt = x => view.from + (x - scene.left) * perPixel();
const rowOn = (s, machine) => scene.rowOf.get(`${s.index} ${machine}`);
const rowAt = y => scene.rows.find(row => y >= row.top && y < row.top + row.height);

function boxOf(s, t, row = rowOn(s, s.machine[t])) {
  const x = xOf(s.starts[t] / s.per), end = xOf(s.ends[t] / s.per);
  return { x, end, y: row.top, width: max(end - x, 1), height: row.height };
}

// The first position of a row whose slot ends after a time.
const firstAfter = (s, order, value) => countBefore(order.length, i => s.ends[order[i]] > value * s.per);

const orderOf = row => row.order || row.s.orders[row.machine] || [];

function tasksSeen(row) {
  const { s } = row, order = orderOf(row), first = firstAfter(s, order, view.from);
  return order.slice(first, countBefore(order.length, i => s.starts[order[i]] > view.to * s.per));
}

// The slots of a row about a point in time.
function slotsNear(row, value) {
  const { s } = row, order = orderOf(row), at = firstAfter(s, order, value);
  return order.slice(max(at - 1, 0), at + 2);
}

// The slot under a point, or one so short that it is next to it; of several the one with the nearest middle.
function slotAt(x, y) {
  const row = rowAt(y);
  if (!row || x < scene.left) return null;
  const boxes = slotsNear(row, timeAt(x)).map(t => ({ s: row.s, t, ...boxOf(row.s, t, row) }));
  const away = box => abs(box.x + box.end - 2 * x);
  boxes.sort((a, b) => away(a) - away(b));
  return boxes.find(box => {
    const slop = box.width < 4 ? 1.5 : 0;
    return x >= box.x - slop && x <= box.x + box.width + slop;
  }) || null;
}

function setWindow(from, to) {
  const most = totalTime() * 1.02, length = min(max(to - from, most * 1e-7), most);
  view.from = min(max(from, 0), most - length);
  view.to = view.from + length;
  view.whole = false;
}

function fitAll() {
  setWindow(0, totalTime());
  view.whole = true;
}

const pan = by => setWindow(view.from + by, view.to + by);

function zoomBy(factor, x = scene.left + plotWidth() / 2) {
  const from = timeAt(x) - (timeAt(x) - view.from) * factor;
  setWindow(from, from + (view.to - view.from) * factor);
}

// Pans, and zooms where the window is too wide or too narrow, until a span of time can be seen.
function reveal(start, end, leastWidth = 0) {
  const middle = (start + end) / 2, length = end - start, fits = length <= view.to - view.from;
  if (length && length / perPixel() < leastWidth) return zoomTo(middle, (length * plotWidth()) / (3 * leastWidth));
  if (!fits || start < view.from || end > view.to) zoomTo(middle, fits ? view.to - view.from : length * 1.2);
}

const zoomTo = (middle, length) => setWindow(middle - length / 2, middle + length / 2);
const revealTask = (s, t, leastWidth) => reveal(s.starts[t] / s.per, s.ends[t] / s.per, leastWidth);
