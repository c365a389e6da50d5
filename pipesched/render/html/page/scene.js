// Where things stand on the chart: rows, boxes, and what is under the pointer. All in CSS pixels of the chart.

const AXIS = 24, TITLE = 22, LANE = 7, STRIP = 18, LAST = 6;
let scene = { rows: [], titles: [], width: 0, height: 0, left: 0 };

const lanePairs = (sheet) => (sheet.orders.length - sheet.graph.devices) / 2;
const totalRows = () => sheets.reduce((sum, sheet) => sum + sheet.graph.devices, 0);

function layOut() {
  const width = Math.max($("chart").clientWidth, 200), left = width < 560 ? 30 : 74;
  const rows = [], titles = [], count = totalRows();
  const high = Math.max(count > 400 ? 3 : 8, Math.min(30, Math.floor(560 / count)));
  const space = high > 12 ? 4 : 1;
  let top = AXIS;
  for (const sheet of sheets) {
    titles.push({ sheet, top });
    top += TITLE;
    const devices = sheet.graph.devices, each = lanePairs(sheet) && lanePairs(sheet) < devices ? 2 : 1;
    for (let device = 0; device < devices; device++) {
      rows.push({ sheet, machine: device, device, top, height: high, kind: "device" });
      top += high + space;
      if (shows.memory) {
        rows.push({ sheet, machine: -1, device, top, height: STRIP, kind: "memory" });
        top += STRIP + space;
      }
      if (lanePairs(sheet) && ((device + 1) % each === 0 || device === devices - 1)) {
        for (const lane of [0, 1]) {
          const machine = devices + 2 * Math.floor(device / each) + lane;
          rows.push({ sheet, machine, device, top, height: LANE + (high > 20 ? 4 : 0), kind: "lane" });
          top += LANE + (high > 20 ? 4 : 0) + 1;
        }
        top += space;
      }
    }
    top += 4;
  }
  scene = { rows, titles, width, height: top + LAST, left, rowOf: new Map(rows.filter((row) => row.machine >= 0).map((row) => [row.sheet.index * 1e6 + row.machine, row])) };
}

const plotWidth = () => Math.max(scene.width - scene.left - LAST, 50);
const perPixel = () => (view.to - view.from) / plotWidth();
const xOf = (time) => scene.left + (time - view.from) / perPixel();
const timeAt = (x) => view.from + (x - scene.left) * perPixel();
const rowOfMachine = (sheet, machine) => scene.rowOf.get(sheet.index * 1e6 + machine);

function boxOf(sheet, task) {
  const row = rowOfMachine(sheet, sheet.graph.machine[task]);
  const x = xOf(unitsOf(sheet, sheet.times.starts[task])), end = xOf(unitsOf(sheet, sheet.times.ends[task]));
  return { x, y: row.top, width: Math.max(end - x, 1), height: row.height };
}

// The first position of an order whose slot ends after a time in ticks.
function firstAfter(sheet, order, ticks) {
  let low = 0, high = order.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sheet.times.ends[order[middle]] > ticks) high = middle;
    else low = middle + 1;
  }
  return low;
}

const rowAt = (y) => scene.rows.find((row) => y >= row.top && y < row.top + row.height);

// The slot under a point, or one so short that it is next to it: {sheet, task, row}, or null.
function slotAt(x, y) {
  const row = rowAt(y);
  if (!row || row.machine < 0 || x < scene.left) return null;
  const { sheet } = row, order = sheet.orders[row.machine];
  const at = firstAfter(sheet, order, timeAt(x) * sheet.graph.data.perUnit);
  for (const near of [at, at - 1, at + 1]) {
    const task = order[near];
    if (task === undefined) continue;
    const box = boxOf(sheet, task);
    const slop = box.width < 4 ? 1.5 : 0;
    if (x >= box.x - slop && x <= box.x + box.width + slop) return { sheet, task, row };
  }
  return null;
}

function setWindow(from, to) {
  const most = totalTime() * 1.02, least = totalTime() * 1e-7;
  const length = Math.min(Math.max(to - from, least), most);
  view.from = Math.min(Math.max(from, 0), Math.max(most - length, 0));
  view.to = view.from + length;
  view.whole = false;
}

function fitAll() {
  setWindow(0, totalTime());
  view.whole = true;
}

const pan = (time) => setWindow(view.from + time, view.to + time);

function zoomBy(factor, x = scene.left + plotWidth() / 2) {
  const at = timeAt(x), from = at - (at - view.from) * factor;
  setWindow(from, from + (view.to - view.from) * factor);
}

// Pans, and zooms where the window is too wide or too narrow, until a task can be seen.
function reveal(sheet, task, leastWidth = 0) {
  const [start, end] = [unitsOf(sheet, sheet.times.starts[task]), unitsOf(sheet, sheet.times.ends[task])];
  const length = view.to - view.from, width = (end - start) / perPixel();
  if (end > start && width < leastWidth) {
    const wanted = ((end - start) * plotWidth()) / (3 * leastWidth);
    setWindow((start + end) / 2 - wanted / 2, (start + end) / 2 + wanted / 2);
  } else if (end - start > length) setWindow(start - (end - start) * 0.1, end + (end - start) * 0.1);
  else if (start < view.from || end > view.to) setWindow((start + end) / 2 - length / 2, (start + end) / 2 + length / 2);
}
