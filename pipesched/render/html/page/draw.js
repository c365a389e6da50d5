// The chart's own canvas: axis, slots, lanes, idle classes, memory. Slots under 3 pixels become averages of columns.

const SMALL = 3, LABEL = 14;
const IDLE = { // class: name, mark, colour, stripes
  warm_up: ["warm-up", "u", [120, 144, 156], "dots"], wait: ["wait", "w", [255, 193, 7], "rise"],
  transfer: ["transfer", "t", [0, 172, 193], "fall"], order: ["order", "o", [171, 71, 188], "cross"],
  memory: ["memory", "m", [239, 83, 80], "rise"], drain: ["drain", "d", [141, 110, 99], "fall"],
  late: ["late", "l", [66, 165, 245], "cross"],
};
let paint, over, ink = {}, ratio = 1;

function readInk() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["bg", "fg", "dim", "line", "soft", "accent", "link", "bad"]) ink[name] = style.getPropertyValue(`--${name}`).trim();
  ink.ground = [1, 3, 5].map((at) => parseInt((ink.bg.length === 4 ? `#${[...ink.bg.slice(1)].map((d) => d + d).join("")}` : ink.bg).slice(at, at + 2), 16));
}

// Two colours a task, packed as 0xrrggbb: of its forward (or itself), and of the other part of a pair.
function coloursOf(graph) {
  const { hues, shades, step } = page.colours;
  const mix = (a, b, part) => a.map((value, at) => Math.round(value + (b[at] - value) * part));
  const packed = ([red, green, blue]) => red * 65536 + green * 256 + blue;
  const chunkOf = new Map();
  for (let device = 0; device < graph.devices; device++) {
    const held = graph.data.placement.map((there, stage) => [there, stage]).filter(
      ([there]) => there === device || (graph.data.mirrored && graph.devices - 1 - there === device));
    held.forEach(([, stage], chunk) => chunkOf.set(`${device} ${stage}`, [chunk, held.length]));
  }
  const memo = new Map();
  const colour = (number) => {
    const stage = stageOf(graph, number), device = deviceOf(graph, number), { letter } = kindOf(graph, number);
    const [chunk, chunks] = chunkOf.get(`${device} ${stage}`), hue = microbatchOf(graph, number) % hues.length;
    const key = `${letter}${hue} ${chunk} ${chunks}`;
    if (!memo.has(key)) {
      const [red, green, blue, part] = shades[letter], shade = mix(hues[hue], [red, green, blue], part);
      memo.set(key, packed(chunks > 1 && chunk ? mix(shade, [255, 255, 255], Math.min(step * chunk, 0.7)) : shade));
    }
    return memo.get(key);
  };
  const first = new Uint32Array(graph.size), second = new Uint32Array(graph.size);
  for (const order of graph.orders) {
    for (const task of order) {
      first[task] = colour(task);
      second[task] = graph.pairs.has(task) ? colour(graph.pairs.get(task)) : first[task];
    }
  }
  return { first, second };
}

const cssNames = new Map();
function css(packed) {
  if (!cssNames.has(packed)) cssNames.set(packed, `#${packed.toString(16).padStart(6, "0")}`);
  return cssNames.get(packed);
}
const isLight = (packed) => 0.299 * (packed >> 16) + 0.587 * ((packed >> 8) & 255) + 0.114 * (packed & 255) > 125;

const patterns = new Map();
function pattern(sort, colour, context = paint) {
  const key = `${sort} ${colour} ${ratio}`;
  if (patterns.has(key)) return patterns.get(key);
  const tile = document.createElement("canvas"), pen = tile.getContext("2d");
  tile.width = tile.height = 6;
  pen.strokeStyle = pen.fillStyle = colour;
  if (sort === "dots") pen.fillRect(1, 1, 2, 2);
  if (sort === "rise" || sort === "cross") { pen.moveTo(-1, 7); pen.lineTo(7, -1); pen.moveTo(-1, 1); pen.lineTo(1, -1); pen.moveTo(5, 7); pen.lineTo(7, 5); }
  if (sort === "fall" || sort === "cross") { pen.moveTo(-1, -1); pen.lineTo(7, 7); pen.moveTo(5, -1); pen.lineTo(7, 1); pen.moveTo(-1, 5); pen.lineTo(1, 7); }
  pen.stroke();
  const made = context.createPattern(tile, "repeat");
  patterns.set(key, made);
  return made;
}

function stripesOf(letter) {
  const { falling } = page.colours;
  return letter in falling ? (falling[letter] ? "fall" : "rise") : "OL".includes(letter) ? "dots" : null;
}

function fitCanvas(canvas, width, height) {
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

function drawChart() {
  ratio = Math.min(window.devicePixelRatio || 1, 2);
  paint = fitCanvas($("paint"), scene.width, scene.height);
  paint.fillStyle = ink.bg;
  paint.fillRect(0, 0, scene.width, scene.height);
  drawAxis();
  for (const { sheet, top } of scene.titles) drawTitle(sheet, top);
  const right = scene.left + plotWidth();
  for (const row of scene.rows) {
    drawRowName(row);
    paint.save();
    paint.beginPath();
    paint.rect(scene.left, row.top - 1, right - scene.left, row.height + 2);
    paint.clip();
    if (row.kind === "memory") drawMemory(row);
    else {
      paint.fillStyle = ink.soft;
      paint.fillRect(scene.left, row.top, right - scene.left, row.height);
      if (shows.idle && row.kind === "device") drawGaps(row);
      drawSlots(row);
    }
    paint.restore();
  }
  if (shows.path) for (const sheet of sheets) drawPath(sheet);
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((times) => power * times >= least);
}

function drawAxis() {
  const step = niceStep(perPixel() * 70);
  paint.font = "11px system-ui, sans-serif";
  paint.textBaseline = "middle";
  paint.textAlign = "center";
  const right = scene.left + plotWidth();
  for (let mark = Math.ceil(view.from / step); mark * step <= view.to; mark++) {
    const x = Math.round(xOf(mark * step)) + 0.5, text = numberText(mark * step);
    paint.fillStyle = ink.line;
    paint.fillRect(x - 0.5, AXIS - 6, 1, scene.height - AXIS);
    paint.fillStyle = ink.dim;
    const half = paint.measureText(text).width / 2;
    if (x + half <= scene.width) paint.fillText(text, Math.max(x, half + 2), 9);
  }
  if (unitName() && scene.left > 40) {
    paint.textAlign = "left";
    paint.fillText(`time,${unitName()}`, 4, 9);
  }
  paint.fillStyle = ink.line;
  paint.fillRect(scene.left, AXIS - 6, right - scene.left, 1);
}

function drawTitle(sheet, top) {
  const isCurrent = sheet.index === current && sheets.length > 1;
  paint.fillStyle = ink.bg;
  paint.fillRect(0, top, scene.width, TITLE);
  paint.textAlign = "left";
  paint.fillStyle = ink.fg;
  paint.font = `${isCurrent ? "bold " : ""}12px system-ui, sans-serif`;
  const text = `${isCurrent ? "▸ " : ""}${sheet.name}: makespan ${timeText(sheet, sheet.got.makespan)}${difference(sheet)}, bubble ${(sheet.got.bubble * 100).toFixed(2)}%`;
  paint.fillText(text, 4, top + TITLE / 2 + 1);
}

function drawRowName(row) {
  if (row.height < 8) return;
  const lane = row.kind === "lane" ? (row.machine - row.sheet.graph.devices) % 2 : -1;
  const name = lane >= 0 ? ["out", "back"][lane] : row.kind === "memory" ? "memory" : `device ${row.device}`;
  paint.textAlign = "left";
  paint.font = `${Math.min(row.height, 11)}px system-ui, sans-serif`;
  paint.fillStyle = row.kind === "device" ? ink.fg : ink.dim;
  paint.fillText(scene.left > 40 ? name : row.kind === "device" ? String(row.device) : name[0], 4, row.top + row.height / 2 + 0.5);
}

let sums = new Float32Array(0);
let strip = null;

function drawSlots(row) {
  const { sheet } = row, order = sheet.orders[row.machine], { starts, ends } = sheet.times;
  const scale = ratio / perPixel() / sheet.graph.data.perUnit, shift = view.from * sheet.graph.data.perUnit;
  const width = Math.round(plotWidth() * ratio), until = view.to * sheet.graph.data.perUnit;
  if (sums.length !== 4 * width) sums = new Float32Array(4 * width);
  let any = false;
  const big = [], { first, second } = sheet.colours;
  for (let at = firstAfter(sheet, order, shift); at < order.length; at++) {
    const task = order[at];
    if (starts[task] > until) break;
    const left = (starts[task] - shift) * scale, right = (ends[task] - shift) * scale;
    if (right - left >= SMALL * ratio || ends[task] === starts[task]) { big.push(task); continue; }
    if (!any) { sums.fill(0); any = true; }
    const a = first[task], b = second[task];
    const red = ((a >> 16) + (b >> 16)) / 2, green = (((a >> 8) & 255) + ((b >> 8) & 255)) / 2, blue = ((a & 255) + (b & 255)) / 2;
    for (let x = Math.max(Math.floor(left), 0); x < right && x < width; x++) {
      const share = Math.min(right, x + 1) - Math.max(left, x);
      if (share <= 0) continue;
      sums[4 * x] += red * share;
      sums[4 * x + 1] += green * share;
      sums[4 * x + 2] += blue * share;
      sums[4 * x + 3] += share;
    }
  }
  if (any) putColumns(row, width);
  for (const task of big) drawSlot(row, sheet, task);
}

// Columns of a row as an image: the sum of the colours in each, the ground where nothing runs.
function putColumns(row, width) {
  const height = Math.max(Math.round(row.height * ratio), 1);
  if (!strip || strip.width !== width || strip.height !== height) strip = paint.createImageData(width, height);
  const pixels = new Uint32Array(strip.data.buffer), [red, green, blue] = ink.ground;
  const [rowRed, rowGreen, rowBlue] = [red, green, blue].map((value) => (value > 127 ? value - 12 : value + 9));
  for (let x = 0; x < width; x++) {
    const share = Math.min(sums[4 * x + 3], 1), rest = 1 - share;
    pixels[x] = 0xff000000 | ((sums[4 * x + 2] + rest * rowBlue) << 16) | ((sums[4 * x + 1] + rest * rowGreen) << 8) | (sums[4 * x] + rest * rowRed);
  }
  for (let y = 1; y < height; y++) pixels.copyWithin(y * width, 0, width);
  paint.putImageData(strip, Math.round(scene.left * ratio), Math.round(row.top * ratio));
}

function drawSlot(row, sheet, task) {
  const { graph } = sheet, box = boxOf(sheet, task), { letter } = kindOf(graph, task), backward = graph.pairs.get(task);
  const { first, second } = sheet.colours, width = Math.max(box.width - 0.6, 1);
  paint.fillStyle = css(first[task]);
  paint.fillRect(box.x, box.y, width, box.height);
  if (backward !== undefined) {
    paint.fillStyle = css(second[task]);
    paint.fillRect(box.x, box.y + box.height / 2, width, box.height / 2);
  }
  const stripes = stripesOf(letter);
  if (stripes && width > 5 && box.height > 5) {
    paint.fillStyle = pattern(stripes, isLight(first[task]) ? "rgba(0,0,0,.3)" : "rgba(255,255,255,.4)");
    paint.fillRect(box.x, box.y, width, box.height);
  } else if ("BI".includes(letter) && width > 5 && box.height > 9) {
    paint.fillStyle = "rgba(255,255,255,.55)";
    paint.fillRect(box.x, box.y + box.height - 3, width, 1.5);
  }
  if (width < LABEL || box.height < 8) return;
  const from = Math.max(box.x, scene.left), seen = Math.min(box.x + width, scene.left + plotWidth()) - from;
  if (seen < LABEL) return;
  paint.font = `${Math.min(box.height - 1, 11)}px system-ui, sans-serif`;
  paint.textAlign = "center";
  const halves = backward === undefined ? [[task, first[task], 0.5, 1]] : [[task, first[task], 0.25, 0.5], [backward, second[task], 0.75, 0.5]];
  for (const [number, colour, middle, part] of halves) {
    if (box.height * part < 8) continue;
    const text = [opText(graph, number), String(microbatchOf(graph, number))].find((one) => one.length * 7 + 3 < seen);
    if (!text) continue;
    const x = from + seen / 2, y = box.y + box.height * middle + 0.5;
    if (stripes) {
      const half = text.length * 3.4 + 1;
      paint.fillStyle = css(colour);
      paint.fillRect(x - half, y - 6, 2 * half, 11);
    }
    paint.fillStyle = isLight(colour) ? "#000" : "#fff";
    paint.fillText(text, x, y);
  }
}

function drawGaps(row) {
  const { sheet } = row, per = sheet.graph.data.perUnit;
  if (sheet.operations > LARGE && !("gaps" in sheet.cache)) return;
  for (const gap of gapsOn(sheet, row.device)) {
    const x = xOf(gap.start / per), width = xOf(gap.end / per) - x;
    if (width < 1 || x > scene.width || x + width < scene.left) continue;
    const [, mark, colour, stripes] = IDLE[gap.idle];
    paint.fillStyle = `rgba(${colour},.28)`;
    paint.fillRect(x, row.top, width, row.height);
    if (row.height > 5) {
      paint.fillStyle = pattern(stripes, `rgba(${colour},.75)`);
      paint.fillRect(x, row.top, width, row.height);
    }
    if (width < LABEL || row.height < 12) continue;
    paint.font = "bold 10px system-ui, sans-serif";
    paint.textAlign = "center";
    const y = row.top + row.height / 2;
    paint.fillStyle = ink.bg;
    paint.fillRect(x + width / 2 - 6, y - 6, 12, 12);
    paint.fillStyle = ink.fg;
    paint.fillText(mark, x + width / 2, y + 0.5);
  }
}

function drawPath(sheet) {
  if (sheet.operations > LARGE && !("known" in sheet.cache)) return;
  paint.save();
  paint.beginPath();
  paint.rect(scene.left, 0, plotWidth(), scene.height);
  paint.clip();
  let before = null;
  for (const task of known(sheet).path) {
    const box = boxOf(sheet, task);
    const thick = Math.max(Math.min(3, box.height / 3), 1.5);
    if (before && box.x > scene.left - 50 && before.x < scene.width) {
      paint.strokeStyle = ink.accent;
      paint.beginPath();
      paint.moveTo(before.x + before.width, before.y + before.height);
      paint.lineTo(box.x, box.y + box.height);
      paint.stroke();
    }
    paint.fillStyle = ink.accent;
    paint.fillRect(box.x, box.y + box.height - thick + 1, box.width, thick);
    before = box;
  }
  paint.restore();
}

function drawMemory(row) {
  const { sheet } = row, { data } = sheet.graph, steps = stepsOf(sheet, row.device), capacity = data.capacity[row.device];
  const most = Math.max(cached(sheet, "peak", () => Math.max(...sheet.got.busy.map((_, device) => peakOf(stepsOf(sheet, device))))), capacity || 0) || 1;
  const y = (level) => row.top + row.height * (1 - level / most);
  paint.fillStyle = ink.soft;
  paint.fillRect(scene.left, row.top, plotWidth(), row.height);
  for (let at = Math.max(lastAtMost(steps.times, view.from * data.perUnit), 0); at < steps.times.length; at++) {
    const x = xOf(steps.times[at] / data.perUnit), end = at + 1 < steps.times.length ? xOf(steps.times[at + 1] / data.perUnit) : x;
    if (x > scene.width) break;
    const isOver = capacity !== null && steps.levels[at] > capacity;
    paint.fillStyle = isOver ? ink.bad : ink.dim;
    paint.globalAlpha = isOver ? 0.9 : 0.55;
    paint.fillRect(x, y(steps.levels[at]), Math.max(end - x, 0.5), row.top + row.height - y(steps.levels[at]));
    if (isOver) {
      paint.fillStyle = pattern("rise", ink.bg);
      paint.fillRect(x, y(steps.levels[at]), Math.max(end - x, 0.5), y(capacity) - y(steps.levels[at]));
    }
  }
  paint.globalAlpha = 1;
  if (capacity === null) return;
  paint.fillStyle = ink.bad;
  for (let x = scene.left; x < scene.width; x += 8) paint.fillRect(x, y(capacity) - 0.5, 4, 1);
}

// The whole schedule in little, with the window: what is drawn is where devices work.
function drawMap() {
  const canvas = $("map"), width = canvas.clientWidth || 100, height = 26;
  const pen = fitCanvas(canvas, width, height), total = totalTime() * 1.02;
  canvas.style.width = "";
  pen.fillStyle = ink.soft;
  pen.fillRect(0, 0, width, height);
  const sheet = sheets[current], columns = Math.ceil(width);
  const make = () => {
    const busy = new Float32Array(columns + 1), scale = columns / total / sheet.graph.data.perUnit;
    for (const order of sheet.orders.slice(0, sheet.graph.devices)) {
      for (const task of order) {
        const left = sheet.times.starts[task] * scale, right = sheet.times.ends[task] * scale;
        for (let x = Math.floor(left); x < right; x++) busy[x] += Math.min(right, x + 1) - Math.max(left, x);
      }
    }
    return busy.map((time) => time / sheet.graph.devices);
  };
  const isStale = sheet.operations > LARGE && sheet.shares && sheet.shares.length === columns + 1 && !("known" in sheet.cache);
  const shares = isStale ? sheet.shares : cached(sheet, `map${columns} ${total}`, make); // large ones when nothing moves
  sheet.shares = shares;
  pen.fillStyle = ink.dim;
  for (let x = 0; x < columns; x++) pen.fillRect(x, height * (1 - shares[x]), 1, height * shares[x]);
  pen.fillStyle = ink.bg;
  pen.globalAlpha = 0.65;
  const [from, to] = [(view.from / total) * width, (view.to / total) * width];
  pen.fillRect(0, 0, from, height);
  pen.fillRect(to, 0, width - to, height);
  pen.globalAlpha = 1;
  pen.strokeStyle = ink.link;
  pen.lineWidth = 2;
  pen.strokeRect(from + 1, 1, Math.max(to - from - 2, 2), height - 2);
}
