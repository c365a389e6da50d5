// What scripts may call, then the start.

// window.pipesched, copy and download.

const orderTexts = s => ranks(s).map(order => order.map(t => slotText(s, t)));
const makespanOf = s => totals(s).makespan / s.per;

// A call about an operation: use(schedule, task), or else what `absent` says.
const about = (absent, use) => (op, ...more) => {
  const s = sheets[more[use.length - 2] ?? current], t = s ? taskOf(s, op) : -1;
  return t < 0 ? absent(op, s) : use(s, t, ...more);
};
const ofSheet = use => (index = current) => use(sheets[index]);

const api = {
  select: about(() => false, (s, t) => { choose(s, t); return true; }),
  selected: () => picked && { schedule: picked.s.index, op: slotText(picked.s, picked.t), position: placeOf(picked.s, picked.t) },
  place: about(() => null, (s, t) => {
    const chart = $("chart"), corner = () => [chart.getBoundingClientRect(), chart.clientLeft, chart.clientTop];
    revealTask(s, t, 4);
    const { x, y, width, height } = boxOf(s, t), above = corner()[0].top + y;
    if (above < $("live").offsetHeight || above + height > innerHeight) scrollBy({ top: above - innerHeight / 2, behavior: "instant" });
    refresh();
    const [{ left, top }, borderX, borderY] = corner();
    return { x: left + borderX + x, y: top + borderY + y, width, height };
  }),
  zoom(from, to) {
    if (!(from < to)) return;
    setWindow(from, to);
    refresh();
  },
  move: about((op, s) => ({ ok: false, reason: `there is no operation ${op}`, makespan: s ? makespanOf(s) : null }), (s, t, position) => {
    const reason = move(s, t, position);
    return { ok: !reason, reason, makespan: makespanOf(s) };
  }),
  undo: () => stepBack(undoEdit(), "undo"),
  redo: () => stepBack(redoEdit(), "redo"),
  makespan: ofSheet(makespanOf),
  bubble: ofSheet(s => totals(s).bubble),
  times: ofSheet(timesDocument),
  document: ofSheet(scheduleDocument),
  get schedules() {
    return sheets.map(s => ({ name: s.name, makespan: makespanOf(s), edited: s.edits > 0, get orders() { return orderTexts(s); } }));
  },
};

function download() {
  const { name } = shown(), link = element("a", "", { download: `${name.replace(/[^\w.-]+/g, "-")}.json` });
  link.href = URL.createObjectURL(new Blob([`${JSON.stringify(api.document())}\n`], { type: "application/json" }));
  link.click();
  setTimeout(URL.revokeObjectURL, 1e4, link.href);
  say(`${name} is downloaded as ${link.download}.`);
}

async function copyOrder() {
  const text = JSON.stringify(orderTexts(shown())).replaceAll("],", "],\n ");
  try {
    await navigator.clipboard.writeText(text);
    say("The order is copied: pipesched.plan takes it.");
  } catch {
    $("copied").value = text;
    $("text").showModal();
    $("copied").select();
  }
}

// The start: schedules are computed, the page listens, and the first frame is drawn.

function listen() {
  const chart = $("chart"), map = $("map"), on = (where, handlers) => {
    for (const [name, handler] of Object.entries(handlers)) where.addEventListener(name, handler, { passive: false });
  };
  const each = (selector, name, handler) => document.querySelectorAll(selector).forEach(one => on(one, { [name]: () => handler(one) }));
  on(chart, {
    pointerdown: onDown, pointermove: onMove, pointerup: onUp, pointercancel: cancelGesture, keydown: onKey, wheel: onWheel,
    dblclick: () => pressKey("0"), pointerleave: () => { pointer.inside = false; redraw(false); },
  });
  const follow = event => {
    if (!event.buttons) return;
    const box = map.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * totalTime() * 1.02;
    pan(at - (view.from + view.to) / 2);
    refresh({ soon: true });
  };
  on(map, { pointerdown: event => { map.setPointerCapture(event.pointerId); follow(event); }, pointermove: follow });
  each("[data-key]", "click", button => pressKey(button.dataset.key));
  each("[data-close]", "click", button => button.closest("dialog").close());
  each("dialog", "close", () => chart.focus());
  on($("goto"), { keydown(event) {
    if (event.key !== "Enter") return;
    event.preventDefault();
    $("jump").close();
    jump($("goto").value.trim());
  } });
  on($("copy"), { click: copyOrder });
  on($("download"), { click: download });
  on(matchMedia("(prefers-color-scheme: dark)"), { change() { readInk(); refresh({ soon: true }); } });
  on(window, { hashchange() { asLoaded(); openLink(); refresh({ relayout: true }); } });
  let wide = chart.clientWidth;
  new ResizeObserver(() => {
    if (chart.clientWidth === wide) return;
    wide = chart.clientWidth;
    layOut();
    redraw();
  }).observe(chart);
}

async function start() {
  await load();
  Object.defineProperties(window.pipesched, Object.getOwnPropertyDescriptors(api));
  readInk();
  showVerified();
  listen();
  layOut();
  openLink();
  showNumbers();
  await new Promise(done => requestAnimationFrame(() => { drawWhole = true; drawAll(); done(); }));
  refresh({ soon: true });
  // Browsers compile what ran a few times: then a first drop is as fast as later ones.
  setTimeout(usersOf, 50, sheets[0]);
  for (let turn = 8; turn; turn--) setTimeout(earliest, 99 * turn, sheets[0]);
}

// A page that cannot start says so, above the still picture.
function fail(error) {
  document.documentElement.className = "failed";
  $("verified").className = "bad";
  $("verified").textContent = `This page cannot show the schedule: ${error.message}. Below is a still picture.`;
  throw error;
}

document.documentElement.className = "js";
window.pipesched = { ready: start().catch(fail) };
