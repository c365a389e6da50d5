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
