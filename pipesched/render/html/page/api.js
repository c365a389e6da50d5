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
