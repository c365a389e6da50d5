// What stands around the chart: numbers, sentences, details and tables. Text from users is only ever set as text.

const MOST_ROWS = 200, MOST_LISTED = 64;
const say = (sentence) => { $("live").textContent = sentence; };

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function fillTable(id, titles, rows, { caption, sumRows = 0, dress } = {}) {
  const head = element("tr"), body = element("tbody"), thead = element("thead");
  titles.forEach((title) => head.append(element("th", title, { scope: "col" })));
  thead.append(head);
  rows.forEach((cells, at) => {
    const row = element("tr", undefined, at >= rows.length - sumRows ? { class: "sum" } : {});
    cells.forEach((cell, column) => row.append(element(column ? "td" : "th", cell, column ? {} : { scope: "row" })));
    if (dress) dress(row, at);
    body.append(row);
  });
  $(id).replaceChildren(...(caption ? [element("caption", caption)] : []), thead, body);
}

function showNumbers() {
  const sheet = sheets[current], { data } = sheet.graph, unit = unitName();
  $("makespan").textContent = `${unitsOf(sheet, sheet.got.makespan)}${unit}${difference(sheet)}`;
  $("bubble").textContent = `${(sheet.got.bubble * 100).toFixed(2)}%`;
  $("which").textContent = `${sheet.name}${sheet.edits ? `, ${sheet.edits} edit${sheet.edits > 1 ? "s" : ""}` : ""}`;
}

// The numbers that take a while: bound, memory, and the table of schedules.
function showMetrics() {
  const sheet = sheets[current], found = metrics(sheet), { data } = sheet.graph, { unit } = data.problem.memory;
  $("bound").textContent = `${numberText(found.lower_bound)}${unitName()} (${found.gap ? `gap ${(found.gap * 100).toFixed(2)}%` : "optimal"})`;
  $("memory").textContent = `${numberText(Math.max(...found.memory))} ${unit}${found.fits ? "" : ", over budget"}`;
  $("memory").className = found.fits ? "" : "bad";
  $("sheets").hidden = sheets.length < 2;
  fillTable("all", ["schedule", "makespan", "bubble", "memory", "budget"], sheets.map((one) => {
    const own = metrics(one);
    return [one.name, timeText(one, one.got.makespan) + difference(one), `${(own.bubble * 100).toFixed(2)}%`,
      numberText(Math.max(...own.memory)), own.fits ? "fits" : `over by ${overBy(one, own)}`];
  }), { caption: page.remarks.join("; "), dress: (row, at) => row.setAttribute("aria-current", at === current) });
}

function overBy(sheet, own) {
  const { data } = sheet.graph;
  return numberText(Math.max(...own.peak_memory.map((peak, device) => (
    data.capacity[device] === null ? -Infinity : peak - data.capacity[device] / data.perGrain))));
}

function showVerified() {
  const wrong = sheets.filter((sheet) => sheet.got.makespan !== sheet.graph.data.makespan);
  $("verified").className = wrong.length ? "bad" : "";
  $("verified").textContent = wrong.length
    ? `Not verified: this page computes ${wrong.map((sheet) => `${timeText(sheet, sheet.got.makespan)} for ${sheet.name}, stored is ${timeText(sheet, sheet.graph.data.makespan)}`).join("; ")}.`
    : `Verified: the makespan computed here equals the stored one${sheets.length > 1 ? ", of every schedule" : ""}${sheets.some((sheet) => sheet.times.isLate) ? "; some operations start later than they could, until the first edit" : ""}.`;
}

const placeText = (sheet, task) => {
  const machine = sheet.graph.machine[task], lane = machine - sheet.graph.devices;
  return lane < 0 ? `device ${machine} position ${placeOf(sheet, task)}` : `lane ${lane >> 1} ${lane % 2 ? "back" : "out"} position ${placeOf(sheet, task)}`;
};

function showDetails() {
  if (!selection) return;
  const sheet = sheets[selection.sheet], { task } = selection, { graph } = sheet, found = known(sheet);
  const time = (ticks) => timeText(sheet, ticks), list = element("dl");
  const put = (name, text) => list.append(element("dt", name), element("dd", text));
  put("operation", `${textOf(sheet, task)}: ${[task, ...(graph.pairs.has(task) ? [graph.pairs.get(task)] : [])].map((part) => `${kindOf(graph, part).name} of microbatch ${microbatchOf(graph, part)} on stage ${stageOf(graph, part)}`).join(", with ")}`);
  put("where", placeText(sheet, task));
  put("runs", `${time(sheet.times.starts[task])} to ${time(sheet.times.ends[task])}${unitName()}`);
  put("slack", found.slack[task] ? time(found.slack[task]) : "0, critical");
  put("waits for", inputsOf(sheet, task).map((one) => `${textOf(sheet, one.task)} (${one.what}, ${time(one.there)}${one.binds ? ", binds" : ""})`).join("; ") || "nothing");
  if (isDevice(graph, graph.machine[task])) {
    const legal = legalPlaces(graph, sheet.orders, task, sheet.times), machine = graph.machine[task];
    put("legal positions", legal.first === legal.last ? `${legal.first} alone` : `${legal.first} to ${legal.last}`);
    const gain = (to) => {
      if (to < legal.first || to > legal.last) return "not legal";
      const orders = movedOrders(sheet.orders, machine, legal.position, to);
      return time(measures(graph, orders, retimed(sheet, orders, machine, Math.min(to, legal.position))).makespan);
    };
    if (sheet.operations <= LARGE) put("makespan if moved", `left: ${gain(legal.position - 1)}, right: ${gain(legal.position + 1)}`);
    const gap = sheet.operations <= LARGE && gapsOf(sheet).filter((one) => one.waiting === task).map((one) => `${time(one.end - one.start)} ${IDLE[one.idle][0]}`).join(", ");
    if (gap) put("gap before", gap);
  }
  const rows = sheet.operations <= LARGE ? costsOf(graph, task).map(([stage, kind]) => costRows(sheet).find((row) => row.stage === stage && row.kind === kind)) : [];
  if (rows.length) put("its cost", rows.map((row) => `a unit less ${row.faster ? -row.faster : 0}, a unit more +${row.slower}`).join("; "));
  $("details").replaceChildren(list);
}

const costRows = (sheet) => cached(sheet, "costs", () => sensitivities(sheet.graph, sheet.orders, earlyKnown(sheet)));

function gapWords(sheet, gap) {
  const culprit = textOf(sheet, gap.culprit), waiting = gap.waiting < 0 ? null : textOf(sheet, gap.waiting);
  if (gap.idle === "order") return `${culprit} could run, but ${waiting} comes first in the order`;
  if (gap.idle === "memory") return `${culprit} could run, but its activation does not fit the budget`;
  if (gap.idle === "late") return `${culprit} starts later than it could`;
  if (!waiting) return `all done here; ${culprit} still runs`;
  return gap.idle === "transfer" && isDevice(sheet.graph, sheet.graph.machine[gap.culprit])
    ? `${waiting} waits for the transfer after ${culprit}` : `${waiting} waits for ${culprit}`;
}

const gapSentence = (sheet, gap) => `device ${gap.device} idles from ${timeText(sheet, gap.start)} to ${timeText(sheet, gap.end)}, ${IDLE[gap.idle][0]}: ${gapWords(sheet, gap)}`;
const byLength = (sheet) => gapsOf(sheet).slice().sort((a, b) => b.end - b.start - (a.end - a.start) || a.device - b.device || a.start - b.start);

function showReasons() {
  const sheet = sheets[current], rows = idleByClass(sheet.graph, gapsOf(sheet)), { bound, devices } = { bound: metrics(sheet).lower_bound, devices: rows.length };
  const used = CLASSES.filter((name) => rows.some((row) => row[name])), sum = (name) => rows.reduce((all, row) => all + row[name], 0);
  const cell = (ticks) => (ticks ? timeText(sheet, ticks) : "."), all = sheet.got.idle.reduce((a, b) => a + b, 0);
  const listed = rows.slice(0, MOST_LISTED).map((row, device) => [`device ${device}`, ...used.map((name) => cell(row[name])), cell(sheet.got.idle[device])]);
  const whole = devices * sheet.got.makespan || 1, share = (ticks) => `${((ticks / whole) * 100).toFixed(1)}%`;
  fillTable("reasons", ["idle", ...used.map((name) => IDLE[name][0]), "all"], [...listed,
    ["sum", ...used.map((name) => cell(sum(name))), cell(all)], ["share", ...used.map((name) => share(sum(name))), share(all)],
  ], { sumRows: 2, caption: rows.length > MOST_LISTED ? `first ${MOST_LISTED} of ${rows.length} devices, sum of all` : "" });
  const unavoidable = Math.max(devices * bound - unitsOf(sheet, sheet.got.busy.reduce((a, b) => a + b, 0)), 0);
  $("avoidable").textContent = `No order avoids ${numberText(unavoidable)} of it; one might avoid ${numberText(unitsOf(sheet, all) - unavoidable)}.`;
  $("gaps").replaceChildren(...byLength(sheet).slice(0, 10).map((gap) => element("li", gapSentence(sheet, gap))));
  showCosts(sheet);
}

function showCosts(sheet) {
  if (sheet.operations > LARGE && !("costs" in sheet.cache)) {
    const button = element("button", "Compute, which takes seconds");
    button.addEventListener("click", () => { costRows(sheet); showCosts(sheet); });
    $("costs").replaceChildren(element("caption"));
    $("costs").firstChild.append(button);
    return;
  }
  const costs = costRows(sheet).filter((row) => row.faster || row.slower);
  costs.sort((a, b) => b.faster * b.cost - a.faster * a.cost || b.slower - a.slower);
  fillTable("costs", ["cost", "a unit less", "a unit more"], costs.slice(0, 40).map((row) => [
    row.kind ? `${row.kind === "overlap" ? "overlap" : sheet.graph.data.kinds[sheet.graph.letters.indexOf(row.kind)].name} of stage ${row.stage}` : `p2p ${row.boundary}-${row.boundary + 1}`,
    row.faster ? `-${row.faster}` : "0", `+${row.slower}`]), { caption: `makespan with the order fixed${sheet.times.isLate ? ", at its earliest times" : ""}` });
}

function showOperations() {
  const listed = [];
  for (const row of scene.rows) {
    if (row.machine < 0 || listed.length >= MOST_ROWS) continue;
    for (const task of visibleTasks(row)) if (listed.length < MOST_ROWS) listed.push([row.sheet, task]);
  }
  const several = sheets.length > 1;
  fillTable("table", ["operation", ...(several ? ["schedule"] : []), "where", "start", "end"], listed.map(([sheet, task]) => [
    textOf(sheet, task), ...(several ? [sheet.name] : []), placeText(sheet, task), timeText(sheet, sheet.times.starts[task]), timeText(sheet, sheet.times.ends[task]),
  ]), {
    caption: `${numberText(Number(view.from.toPrecision(6)))} to ${numberText(Number(view.to.toPrecision(6)))}${unitName()}${listed.length >= MOST_ROWS ? `, the first ${MOST_ROWS}` : ""}`,
    dress(row, at) {
      const [sheet, task] = listed[at];
      if (selection && selection.sheet === sheet.index && selection.task === task) row.setAttribute("aria-selected", "true");
      row.addEventListener("click", () => choose(sheet, task));
    },
  });
}

function showLegend() {
  const used = [...new Set(sheets.flatMap((sheet) => [...sheet.graph.letters]))], items = [];
  const item = (text, draw) => {
    const box = element("canvas", undefined, { width: 22, height: 12, "aria-hidden": "true" }), made = element("li");
    draw(box.getContext("2d"));
    made.append(box, text);
    items.push(made);
  };
  for (const letter of used) {
    const { name } = sheets.map((sheet) => sheet.graph.data.kinds.find((kind) => kind.letter === letter)).find(Boolean);
    const [red, green, blue, part] = page.colours.shades[letter], shade = page.colours.hues[0].map((value, at) => Math.round(value + ([red, green, blue][at] - value) * part));
    item(`${letter} ${name}`, (pen) => {
      pen.fillStyle = `rgb(${shade})`;
      pen.fillRect(0, 0, 22, 12);
      if (!stripesOf(letter)) return;
      pen.fillStyle = pattern(stripesOf(letter), "rgba(0,0,0,.45)", pen);
      pen.fillRect(0, 0, 22, 12);
    });
  }
  if (shows.idle) {
    for (const [name, mark, colour, stripes] of Object.values(IDLE)) item(`${mark} ${name}`, (pen) => {
      pen.fillStyle = `rgba(${colour},.3)`;
      pen.fillRect(0, 0, 22, 12);
      pen.fillStyle = pattern(stripes, `rgba(${colour},.8)`, pen);
      pen.fillRect(0, 0, 22, 12);
    });
  }
  if (shows.path) item("critical path", (pen) => { pen.fillStyle = ink.accent; pen.fillRect(0, 8, 22, 4); });
  $("legend").replaceChildren(...items, element("li", "hue: microbatch"));
}

function showCursor() {
  if (!pointer.inside) return;
  const row = rowAt(pointer.y), sheet = row ? row.sheet : sheets[current], time = timeAt(pointer.x);
  const texts = Array.from({ length: sheet.graph.devices }, (_, device) => `device ${device} ${cursorText(sheet, device, time)}`);
  $("cursor").textContent = `at ${numberText(Number(time.toPrecision(5)))}: ${texts.join(", ")}`;
}
