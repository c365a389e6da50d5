// The chart's own canvas: axis, slots, lanes, idle classes, memory. Slots under 3 pixels become averages of columns.

const SMALL = 3, LABEL = 14, patterns = {}, ink = {};
let paint, ratio = 1, sums = new Float32Array(0), strip = null;

function readInk() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["bg", "fg", "dim", "line", "soft", "accent", "link", "bad"]) ink[name] = style.getPropertyValue(`--${name}`).trim();
}

const rgb = (colour, shift) => (colour >> shift) & 255;
const css = colour => `#${colour.toString(16).padStart(6, "0")}`;
const isLight = colour => 0.299 * rgb(colour, 16) + 0.587 * rgb(colour, 8) + 0.114 * rgb(colour, 0) > 125;

function fill(pen, colour, x, y, width, height, alpha = 1) {
  pen.globalAlpha = alpha;
  pen.fillStyle = colour;
  pen.fillRect(x, y, width, height);
  pen.globalAlpha = 1;
}

// Writes a text, on a ground of its own if one is given.
function write(pen, text, x, y, { size = 11, bold = "", align = "left", colour = ink.fg, ground, alpha } = {}) {
  assign(pen, { font: `${bold} ${size}px system-ui, sans-serif`, textAlign: align, textBaseline: "middle" });
  const width = pen.measureText(text).width + 6, left = { left: 3, center: width / 2, right: width - 3 }[align];
  if (ground) fill(pen, ground, x - left, y - 7, width, 14, alpha);
  pen.fillStyle = colour;
  pen.fillText(text, x, y);
}

// What an own clip encloses: the part of the chart that shows time.
function within(pen, top, height, draw) {
  pen.save();
  pen.beginPath();
  pen.rect(scene.left, top, plotWidth(), height);
  pen.clip();
  draw();
  pen.restore();
}

function pattern(sort, colour) {
  const key = `${sort} ${colour}`;
  if (patterns[key]) return patterns[key];
  const pen = element("canvas", undefined, { width: 6, height: 6 }).getContext("2d");
  pen.strokeStyle = colour;
  if (sort === "dots") fill(pen, colour, 1, 1, 2, 2);
  for (const x of sort === "dots" ? [] : [-7, -1, 5]) {
    for (const [y, end] of { rise: [[7, -1]], fall: [[-1, 7]], cross: [[7, -1], [-1, 7]] }[sort]) {
      pen.moveTo(x, y);
      pen.lineTo(x + 8, end);
    }
  }
  pen.stroke();
  return (patterns[key] = pen.createPattern(pen.canvas, "repeat"));
}

function fitCanvas(canvas, width, height) {
  const size = { width: round(width * ratio), height: round(height * ratio) };
  if (canvas.width !== size.width || canvas.height !== size.height) assign(canvas, size);
  assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

// Whether slots are on average narrower than their number.
const isNarrow = s => {
  const { makespan, bubble } = totals(s), wide = 7 + 7 * `${s.M - 1}`.length;
  return makespan * s.P * (1 - bubble) < s.sequence.length * s.per * perPixel() * wide;
};

function drawChart() {
  const byKind = !shows.hues && sheets.some(isNarrow);
  $("legend").classList.toggle("kinds", byKind);
  for (const s of sheets) s.colour = s.tints[+byKind];
  ratio = min(window.devicePixelRatio || 1, 2);
  paint = fitCanvas($("paint"), scene.width, scene.height);
  fill(paint, ink.bg, 0, 0, scene.width, scene.height);
  drawAxis();
  for (const { s, top } of scene.titles) drawTitle(s, top);
  for (const row of scene.rows) {
    drawRowName(row);
    within(paint, row.top - 1, row.height + 2, () => {
      fill(paint, ink.soft, scene.left, row.top, plotWidth(), row.height);
      if (row.kind === "memory") drawMemory(row);
      else {
        drawSlots(row);
        if (shows.idle && row.kind === "device" && isAtRest(row.s)) drawGaps(row);
      }
    });
  }
  if (shows.path) within(paint, 0, scene.height, () => sheets.filter(isAtRest).forEach(drawPath));
}

function drawAxis() {
  const least = perPixel() * 70, power = 10 ** floor(Math.log10(least));
  const step = power * [1, 2, 5, 10].find(times => power * times >= least);
  for (let mark = ceil(view.from / step); mark * step <= view.to; mark++) {
    const x = round(xOf(mark * step)), text = short(mark * step);
    fill(paint, ink.line, x, AXIS - 6, 1, scene.height);
    const half = paint.measureText(text).width / 2;
    if (x + half <= scene.width) write(paint, text, max(x, half + 2), 9, { align: "center", colour: ink.dim });
  }
  if (unit && scene.left > 40) write(paint, `time,${unit}`, 4, 9, { colour: ink.dim });
  fill(paint, ink.line, scene.left, AXIS - 6, plotWidth(), 1);
}

function drawTitle(s, top) {
  const isCurrent = s.index === current && sheets.length > 1;
  fill(paint, ink.bg, 0, top, scene.width, TITLE);
  const text = `${starred(s)}: makespan ${time(s, totals(s).makespan)}${difference(s)}, bubble ${percent(totals(s).bubble)}${s.lengths && shows.memory ? "; memory as planned: traces hold none" : ""}`;
  write(paint, `${isCurrent ? "▸ " : ""}${text}`, 4, top + TITLE / 2 + 1, { size: 12, bold: isCurrent ? "bold" : "" });
}

function drawRowName({ s, device, kind, machine, top, height, name }) {
  if (height < 8) return;
  const names = { device: s.names?.[device] || `device ${device}`, memory: "memory", net: "net", msg: name, lane: (machine - s.P) % 2 ? "back" : "out" };
  const text = scene.left > 40 ? names[kind] : kind === "device" ? String(device) : names[kind][0];
  write(paint, text, 4, top + height / 2 + 0.5, { size: min(height, 11), colour: kind === "device" ? ink.fg : ink.dim });
}

function drawSlots(row) {
  const { s } = row, { starts, ends, colour, pairs } = s, shift = view.from * s.per, scale = ratio / perPixel() / s.per;
  const width = round(plotWidth() * ratio), large = [];
  if (sums.length !== 4 * width) sums = new Float32Array(4 * width);
  let any = false;
  for (const t of tasksSeen(row)) {
    const left = (starts[t] - shift) * scale, right = (ends[t] - shift) * scale;
    if (right - left >= SMALL * ratio || right === left) { large.push(t); continue; }
    if (!any) sums.fill(0);
    any = true;
    const one = colour[t], other = pairs.has(t) ? colour[pairs.get(t)] : one;
    for (let x = max(floor(left), 0); x < right && x < width; x++) {
      const half = (min(right, x + 1) - max(left, x)) / 2;
      if (half <= 0) continue;
      for (let part = 0; part < 3; part++) sums[4 * x + part] += half * (rgb(one, 8 * part) + rgb(other, 8 * part));
      sums[4 * x + 3] += 2 * half;
    }
  }
  if (any) putColumns(row, width);
  for (const t of large) drawSlot(row, t);
}

// Columns of a row as an image: the sum of the colours in each, the ground where nothing runs.
function putColumns(row, width) {
  const height = max(round(row.height * ratio), 1), ground = parseInt(ink.soft.slice(1), 16);
  if (!strip || strip.width !== width || strip.height !== height) strip = paint.createImageData(width, height);
  const pixels = new Uint32Array(strip.data.buffer);
  for (let x = 0; x < width; x++) {
    const rest = 1 - min(sums[4 * x + 3], 1), part = at => sums[4 * x + at] + rest * rgb(ground, 8 * at);
    pixels[x] = (255 << 24) | (part(0) << 16) | (part(1) << 8) | part(2);
  }
  for (let y = 1; y < height; y++) pixels.copyWithin(y * width, 0, width);
  paint.putImageData(strip, round(scene.left * ratio), round(row.top * ratio));
}

function drawSlot(row, t) {
  const { s } = row, { x, y, width: whole, height } = boxOf(s, t, row), parts = partsOf(s, t), width = max(whole - 0.6, 1);
  const stripes = page.stripes[letterOf(s, t)], each = height / parts.length;
  parts.forEach((part, i) => fill(paint, css(s.colour[part]), x, y + i * each, width, each));
  const lines = isLight(s.colour[t]) ? "rgba(0,0,0,.3)" : "rgba(255,255,255,.4)";
  if (stripes && width > 5 && height > 5) {
    if (stripes === "line") fill(paint, "rgba(255,255,255,.55)", x, y + height - 3, width, 1.5);
    else fill(paint, pattern(stripes, lines), x, y, width, height);
  }
  const from = max(x, scene.left), seen = min(x + width, scene.left + plotWidth()) - from;
  if (each < 8 || seen < LABEL) return;
  parts.forEach((part, i) => {
    const text = [opText(s, part), sliced(s, part), `${countOf(s, part)}`].find(one => one.length * 7 + 3 < seen), colour = s.colour[part];
    const ground = stripes && stripes !== "line" ? css(colour) : "", ink = isLight(colour) ? "#000" : "#fff";
    if (text) write(paint, text, from + seen / 2, y + each * (i + 0.5) + 0.5, { size: min(each - 1, 11), align: "center", colour: ink, ground });
  });
}

// The look of a class of idle time.
function fillIdle(pen, idle, x, y, width, height) {
  const [, , colour, stripes] = page.idle[idle];
  fill(pen, `rgb(${colour})`, x, y, width, height, 0.28);
  if (height > 5) fill(pen, pattern(stripes, `rgb(${colour})`), x, y, width, height, 0.75);
}

function drawGaps({ s, device, top, height }) {
  for (const gap of gapsOn(s, device)) {
    const x = xOf(gap.start / s.per), width = xOf(gap.end / s.per) - x;
    if (width < 1 || x > scene.width || x + width < scene.left) continue;
    fillIdle(paint, gap.idle, x, top, width, height);
    if (width >= LABEL && height >= 12) {
      write(paint, page.idle[gap.idle][1], x + width / 2, top + height / 2 + 0.5, { size: 10, bold: "bold", align: "center", ground: ink.bg });
    }
  }
}

function drawPath(s) {
  let before = null;
  paint.strokeStyle = ink.accent;
  for (const t of reasons(s).path) {
    const box = boxOf(s, t), thick = max(min(3, box.height / 3), 1.5);
    if (before && box.x > scene.left - 50 && before.x < scene.width) {
      paint.beginPath();
      paint.moveTo(before.end, before.y + before.height);
      paint.lineTo(box.x, box.y + box.height);
      paint.stroke();
    }
    fill(paint, ink.bg, box.x - 1, box.y + box.height - thick, box.width + 2, thick + 2);
    fill(paint, ink.accent, box.x, box.y + box.height - thick + 1, box.width, thick);
    before = box;
  }
}

function drawMemory({ s, device, top, height }) {
  const { times, levels } = memoryOf(s, device), capacity = s.capacity[device];
  const most = max(...ranks(s).map((_, other) => memoryOf(s, other).peak), capacity || 0) || 1;
  const high = level => (height * level) / most, bottom = top + height;
  const until = countBefore(times.length, i => times[i] > view.to * s.per);
  for (let i = max(lastAtMost(times, view.from * s.per), 0); i < until; i++) {
    const x = xOf(times[i] / s.per), width = max((i + 1 < times.length ? xOf(times[i + 1] / s.per) : x) - x, 0.5);
    const more = capacity === null ? 0 : levels[i] - capacity;
    fill(paint, more > 0 ? ink.bad : ink.dim, x, bottom - high(levels[i]), width, high(levels[i]), more > 0 ? 0.9 : 0.55);
    if (more > 0) fill(paint, pattern("rise", ink.bg), x, bottom - high(levels[i]), width, high(more));
  }
  for (let x = scene.left; capacity !== null && x < scene.width; x += 8) fill(paint, ink.bad, x, bottom - high(capacity) - 0.5, 4, 1);
}

// The whole schedule in little, with the window: how many devices work.
function drawMap() {
  const s = shown(), canvas = $("map"), width = canvas.clientWidth || 100, height = 26, total = totalTime() * 1.02;
  const pen = fitCanvas(canvas, width, height), columns = ceil(width), { shares } = s;
  canvas.style.width = "";
  const isOld = shares && (shares.orders !== s.orders || shares.total !== total); // a large one follows at rest
  if (!shares || shares.columns !== columns || (isOld && isAtRest(s))) {
    s.shares = { columns, total, orders: s.orders, busy: busyShares(s, columns, columns / total / s.per) };
  }
  fill(pen, ink.soft, 0, 0, width, height);
  s.shares.busy.forEach((share, x) => fill(pen, ink.dim, x, height * (1 - share), 1, height * share));
  const from = (view.from / total) * width, to = (view.to / total) * width;
  fill(pen, ink.bg, 0, 0, from, height, 0.65);
  fill(pen, ink.bg, to, 0, width - to, height, 0.65);
  frameBox(pen, ink.link, 2, from + 1, 1, max(to - from - 2, 2), height - 2);
}

function busyShares(s, columns, scale) {
  const busy = new Float32Array(columns + 1);
  for (const t of ranks(s).flat()) {
    const left = s.starts[t] * scale, right = s.ends[t] * scale;
    for (let x = floor(left); x < right; x++) busy[x] += (min(right, x + 1) - max(left, x)) / s.P;
  }
  return busy;
}
