// window.pipesched, copy and download, and the start.

const api = window.pipesched;
const sheetOf = (index = current) => sheets[index] || null;
const orderTexts = (sheet) => sheet.orders.slice(0, sheet.graph.devices).map((order) => order.map((task) => textOf(sheet, task)));

// Calls use(sheet, task) for an operation that is there, else returns `absent`.
function withTask(op, index, absent, use) {
  const sheet = sheetOf(index), task = sheet ? taskOf(sheet.graph, op) : -1;
  return task < 0 ? absent(sheet) : use(sheet, task);
}

const calls = {
  select: (op, index) => withTask(op, index, () => false, (sheet, task) => { choose(sheet, task); return true; }),
  selected: () => selection && {
    schedule: selection.sheet, op: textOf(sheets[selection.sheet], selection.task), position: placeOf(sheets[selection.sheet], selection.task),
  },
  place: (op, index) => withTask(op, index, () => null, (sheet, task) => {
    reveal(sheet, task, 4);
    const within = () => $("chart").getBoundingClientRect(), own = boxOf(sheet, task);
    const y = within().top + $("chart").clientTop + own.y;
    if (y < 0 || y + own.height > innerHeight) scrollBy({ top: y - innerHeight / 2, behavior: "instant" });
    refresh();
    const box = within();
    return { x: box.left + $("chart").clientLeft + own.x, y: box.top + $("chart").clientTop + own.y, width: own.width, height: own.height };
  }),
  zoom(from, to) {
    if (!(from < to)) return;
    setWindow(from, to);
    refresh();
  },
  move(op, position, index) {
    const makespan = (sheet) => (sheet ? unitsOf(sheet, sheet.got.makespan) : null);
    return withTask(op, index, (sheet) => ({ ok: false, reason: `there is no operation ${op}`, makespan: makespan(sheet) }), (sheet, task) => {
      const reason = move(sheet, task, position);
      return { ok: reason === null, reason, makespan: makespan(sheet) };
    });
  },
  undo: () => stepBack(undoEdit(), "undo"),
  redo: () => stepBack(redoEdit(), "redo"),
  makespan: (index) => unitsOf(sheetOf(index), sheetOf(index).got.makespan),
  bubble: (index) => sheetOf(index).got.bubble,
  times: (index) => timesDocument(sheetOf(index).graph, sheetOf(index).orders, sheetOf(index).times),
  document: (index) => scheduleDocument(sheetOf(index).graph, sheetOf(index).orders, sheetOf(index).times, sheetOf(index).edits > 0),
};

function download() {
  const sheet = sheets[current], link = element("a", "", { download: `${sheet.name.replace(/[^\w.-]+/g, "-")}.json` });
  link.href = URL.createObjectURL(new Blob([`${JSON.stringify(calls.document())}\n`], { type: "application/json" }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  say(`${sheet.name} is downloaded as ${link.download}.`);
}

async function copyOrder() {
  const text = JSON.stringify(orderTexts(sheets[current])).replaceAll("],", "],\n ");
  try {
    await navigator.clipboard.writeText(text);
    say("The order is copied: pipesched.plan takes it.");
  } catch {
    $("copied").value = text;
    $("text").showModal();
    $("copied").select();
  }
}

function listen() {
  const chart = $("chart");
  const events = { pointerdown: onDown, pointermove: onMove, pointerup: onUp, pointercancel: cancelGesture, keydown: onKey };
  for (const [name, handler] of Object.entries(events)) chart.addEventListener(name, handler);
  chart.addEventListener("wheel", onWheel, { passive: false });
  chart.addEventListener("dblclick", () => pressKey("0"));
  chart.addEventListener("pointerleave", () => { pointer.inside = false; redraw(); });
  $("map").addEventListener("pointerdown", (event) => $("map").setPointerCapture(event.pointerId));
  for (const name of ["pointerdown", "pointermove"]) $("map").addEventListener(name, (event) => {
    if (!event.buttons) return;
    const box = $("map").getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * totalTime() * 1.02;
    pan(at - (view.from + view.to) / 2);
    refresh({ link: "soon" });
  });
  for (const button of document.querySelectorAll("[data-key]")) button.addEventListener("click", () => pressKey(button.dataset.key));
  for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
  for (const dialog of document.querySelectorAll("dialog")) dialog.addEventListener("close", () => chart.focus());
  $("goto").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    $("jump").close();
    jump($("goto").value.trim());
  });
  $("copy").addEventListener("click", copyOrder);
  $("download").addEventListener("click", download);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readInk(); refresh({ link: "soon" }); });
  addEventListener("hashchange", () => { asLoaded(); openLink(); refresh({ relayout: true }); });
  new ResizeObserver(() => { if ($("chart").clientWidth !== scene.wide) { scene.wide = $("chart").clientWidth; layOut(); scene.wide = $("chart").clientWidth; redraw(); } }).observe($("chart"));
  fillTable("keys", ["key", ""], [...Object.entries(KEYS).map(([names, [what]]) => [names.replace(/Arrow/g, "").replace(/ /g, ", "), what]),
    ["Shift-arrows", "pan"], ["Tab", "next schedule"], ["Escape", "cancel, or unselect"]]);
}

function openLink() {
  fitAll();
  const skipped = readLink(location.hash);
  if (skipped.length) say(`Left out of the link: ${skipped.join("; ")}.`);
  else if (selection) choose(sheets[selection.sheet], selection.task);
}

async function start() {
  await load();
  Object.assign(api, calls);
  Object.defineProperty(api, "schedules", { enumerable: true, get: () => sheets.map((sheet) => ({
    name: sheet.name, makespan: unitsOf(sheet, sheet.got.makespan), edited: sheet.edits > 0, get orders() { return orderTexts(sheet); },
  })) });
  readInk();
  showVerified();
  listen();
  layOut();
  openLink();
  layOut();
  showNumbers();
  await new Promise((done) => requestAnimationFrame(() => { drawAll(); done(); }));
  refresh({ link: "soon" });
}

api.start = () => {
  delete api.start;
  return start();
};
