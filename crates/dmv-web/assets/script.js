"use strict";
// Everything works without this, apart from the ways to compare pictures and the locked players.
const all = (what, where = document) => [...where.querySelectorAll(what)];
const one = (what, where = document) => where.querySelector(what);
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
const typing = (e) => e.target.closest("input:not([type=radio]), textarea, select, [contenteditable]");

function compare(root) {
  const [a, b] = all(".pane", root);
  const pictures = all("img", root);
  const slide = one("[data-slide]", root), exposure = one("[data-exposure]", root), stops = one("[data-stops]", root);
  const panes = one(".panes", root), look = one("#look"), plain = pictures.map((img) => img.getAttribute("src"));
  const name = one("[data-slide-name]", root), told = one("[data-told]", root);
  let show = "side", zoom = 1, x = 0, y = 0, timer = 0, channel = "all", reload = 0;
  const rows = { all: "1 0 0 0 0 0 1 0 0 0 0 0 1 0 0 0 0 0 1 0", a: "0 0 0 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 0 1" };
  ["r", "g", "b"].forEach((name, n) => {
    const row = [0, 1, 2].map((m) => +(m === n)).join(" ") + " 0 0 ";
    rows[name] = row + row + row + "0 0 0 1 0";
  });
  one(".toolbar", root).hidden = false;

  function draw() {
    for (const img of pictures) {
      img.style.transform = `translate(${x}px, ${y}px) scale(${zoom})`;
      img.style.filter = channel === "all" && (exposure.value === "0" || show === "difference") ? "" : "url(#look)";
      img.style.imageRendering = zoom >= 4 ? "pixelated" : "";
    }
    // Differences are made brighter after they are taken.
    panes.style.filter = show === "difference" && exposure.value !== "0" ? `brightness(${2 ** exposure.value})` : "";
    b.style.clipPath = show === "swipe" ? `inset(0 0 0 ${slide.value}%)` : "";
    b.style.opacity = show === "onion" ? slide.value / 100 : "";
    // Each stands there only while it does something.
    slide.closest("label").hidden = show !== "swipe" && show !== "onion";
    exposure.closest("label").hidden = channel === "a" && show !== "difference";
    name.textContent = show === "onion" ? "Opacity of B" : "Position";
  }
  // Pictures that know more light than a screen come anew from the decoder; of others the pixels are multiplied.
  function expose() {
    stops.textContent = (exposure.value > 0 ? "+" : "") + exposure.value;
    const asked = show === "difference" ? 0 : +exposure.value;
    pictures.forEach((img, n) => {
      if (!img.dataset.light) return;
      const src = plain[n] + (asked ? "&stops=" + asked : "");
      if (img.getAttribute("src") !== src) img.src = src;
    });
    const slope = pictures.some((img) => img.dataset.light) || show === "difference" ? 1 : 2 ** exposure.value;
    for (const part of look.firstElementChild.children) part.setAttribute("slope", slope);
    look.lastElementChild.setAttribute("values", rows[channel]);
    draw();
  }
  function pick(next) {
    channel = next;
    for (const button of all("[data-channel]", root)) button.setAttribute("aria-pressed", button.dataset.channel === next);
    expose();
  }
  function choose(next) {
    show = root.dataset.show = next;
    try { localStorage.setItem("compare", next); } catch { /* it is not kept */ }
    for (const button of all("[data-mode]", root)) button.setAttribute("aria-pressed", button.dataset.mode === next);
    clearInterval(timer);
    b.style.visibility = "";
    if (next === "blink") {
      const step = () => { b.style.visibility = b.style.visibility ? "" : "hidden"; };
      if (calm) told.textContent = "Press Space to switch between A and B.";
      else timer = setInterval(step, 700);
      root.blink = step;
    }
    expose();
  }
  function scale(by, at) {
    const before = zoom;
    zoom = Math.min(32, Math.max(0.25, zoom * by));
    if (at) {
      x = at[0] - (at[0] - x) * zoom / before;
      y = at[1] - (at[1] - y) * zoom / before;
    }
    draw();
  }
  const fit = () => { zoom = 1; x = y = 0; draw(); };
  const original = () => {
    const img = pictures[0];
    zoom = img.width ? img.naturalWidth / img.width / devicePixelRatio : 1;
    x = y = 0;
    draw();
  };
  const zooms = { in: () => scale(1.5), out: () => scale(1 / 1.5), fit, one: original };

  for (const button of all("[data-mode]", root)) button.onclick = () => choose(button.dataset.mode);
  for (const button of all("[data-zoom]", root)) button.onclick = () => zooms[button.dataset.zoom]();
  for (const button of all("[data-channel]", root)) button.onclick = () => pick(button.dataset.channel);
  slide.oninput = draw;
  exposure.oninput = () => { clearTimeout(reload); reload = setTimeout(expose, 120); stops.textContent = exposure.value; };
  for (const pane of [a, b]) {
    pane.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && !e.metaKey && zoom === 1) return;
      e.preventDefault();
      const box = pane.getBoundingClientRect();
      scale(e.deltaY < 0 ? 1.15 : 1 / 1.15, [e.clientX - box.x - box.width / 2, e.clientY - box.y - box.height / 2]);
    }, { passive: false });
    pane.addEventListener("pointerdown", (e) => {
      pane.setPointerCapture(e.pointerId);
      const swipes = show === "swipe" && zoom === 1;
      const from = [e.clientX - x, e.clientY - y];
      const move = (m) => {
        if (swipes) {
          const box = pane.getBoundingClientRect();
          slide.value = 100 * (m.clientX - box.x) / box.width;
        } else [x, y] = [m.clientX - from[0], m.clientY - from[1]];
        draw();
      };
      if (swipes) move(e);
      pane.addEventListener("pointermove", move);
      pane.addEventListener("pointerup", () => pane.removeEventListener("pointermove", move), { once: true });
      pane.addEventListener("pointercancel", () => pane.removeEventListener("pointermove", move), { once: true });
    });
    pane.addEventListener("dblclick", fit);
  }
  const ways = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e)) return;
    const modes = ["side", "swipe", "onion", "difference", "blink"];
    if (modes[e.key - 1]) choose(modes[e.key - 1]);
    else if (rows[e.key.toLowerCase()]) pick(e.key.toLowerCase());
    else if (e.key.toLowerCase() === "c") pick("all");
    else if (e.key === "[" || e.key === "]") { exposure.value = +exposure.value + (e.key === "]" ? 1 : -1); expose(); }
    else if (e.key === "+" || e.key === "=") scale(1.5);
    else if (e.key === "-") scale(1 / 1.5);
    else if (e.key === "0") fit();
    else if (e.key === " " && show === "blink" && !e.target.closest("button")) root.blink();
    else if (ways[e.key] && e.target.closest(".pane")) {
      if (show === "swipe" || show === "onion") slide.value = +slide.value - Math.sign(ways[e.key][0]) * 2;
      else { x += ways[e.key][0]; y += ways[e.key][1]; }
      draw();
    } else return;
    e.preventDefault();
  });
  const measure = () => {
    const sizes = pictures.map((img) => [img.naturalWidth, img.naturalHeight]);
    all("[data-size]", root).forEach((span, n) => {
      if (sizes[n][0]) span.textContent = "\u00b7 " + sizes[n].join(" \u00d7 ");
    });
    if (!pictures.every((img) => img.complete)) return;
    if (sizes.some((size) => !size[0])) told.textContent = "The browser cannot show one of these pictures: it may be damaged.";
    else if (String(sizes[0]) !== String(sizes[1])) told.textContent = `The size has changed: A is ${sizes[0].join(" \u00d7 ")}, B is ${sizes[1].join(" \u00d7 ")} pixels.`;
  };
  for (const img of pictures) img.onload = img.onerror = measure;
  measure();
  let kept = "side";
  try { kept = localStorage.getItem("compare") || kept; } catch { /* nothing is kept */ }
  choose(one(`[data-mode="${CSS.escape(kept)}"]`, root) ? kept : "side");
}

// Two sounds on one clock: both play always, and A/B only turns their volumes. They are decoded completely.
const MOST_BYTES = 96 << 20, MOST_SECONDS = 900;
async function decoded(players, bytes) {
  if (bytes > MOST_BYTES) throw `they are larger than ${MOST_BYTES >> 20} MiB`;
  if (players.some((p) => p.duration > MOST_SECONDS)) throw `they are longer than ${MOST_SECONDS / 60} minutes`;
  const context = new AudioContext();
  await context.resume();
  const buffers = await Promise.all(players.map(async (p) => {
    const answer = await fetch(p.currentSrc || p.src);
    if (!answer.ok) throw "their content could not be read";
    return context.decodeAudioData(await answer.arrayBuffer()).catch(() => { throw "this browser cannot decode them"; });
  }));
  if (buffers.some((buffer) => buffer.duration > MOST_SECONDS)) throw `they are longer than ${MOST_SECONDS / 60} minutes`;
  return { context, buffers };
}

function sounds(root) {
  const both = all("audio", root), play = one("[data-play]", root), ab = one("[data-ab]", root);
  const position = one("[data-position]", root), time = one("[data-time]", root), told = one("[data-told]", root);
  let made = null, nodes = null, gains = [], begun = 0, at = 0, failed = false;
  one(".toolbar", root).hidden = false;
  const isB = () => ab.getAttribute("aria-pressed") === "true";
  const length = () => Math.max(...made.buffers.map((b) => b.duration));
  const now = () => nodes ? Math.min(length(), Math.max(0, made.context.currentTime - begun)) : at;
  const label = (text) => { play.firstChild.textContent = text; };
  const volumes = () => gains.forEach((gain, n) => {
    gain.gain.setTargetAtTime(+(isB() === (n === 1)), made.context.currentTime, 0.003);
  });
  function stop() {
    if (!nodes) return;
    at = now();
    for (const node of nodes) { node.onended = null; node.stop(); }
    nodes = null;
    label("Play both ");
  }
  function start(from) {
    const when = made.context.currentTime + 0.03;
    at = from >= length() ? 0 : from;
    begun = when - at;
    gains = made.buffers.map(() => made.context.createGain());
    nodes = made.buffers.map((buffer, n) => {
      const node = made.context.createBufferSource();
      node.buffer = buffer;
      gains[n].gain.value = +(isB() === (n === 1));
      node.connect(gains[n]).connect(made.context.destination);
      node.start(when, at);
      return node;
    });
    nodes[made.buffers[0].duration < made.buffers[1].duration ? 1 : 0].onended = () => { stop(); at = 0; };
    label("Pause both ");
    requestAnimationFrame(tick);
  }
  function tick() {
    position.value = now();
    time.textContent = `${now().toFixed(2)} s`;
    if (nodes) requestAnimationFrame(tick);
  }
  async function toggle() {
    if (nodes) { stop(); tick(); return; }
    if (failed) return loosely();
    if (!made) {
      told.textContent = "Decoding both\u2026";
      try {
        made = await decoded(both, +root.dataset.bytes);
      } catch (why) {
        failed = true;
        told.textContent = `Not sample-exact: ${typeof why === "string" ? why : "this browser cannot decode them"}. The players run together as well as they can.`;
        return loosely();
      }
      const rates = made.context.sampleRate;
      told.textContent = `Sample-exact: both play from one clock at ${rates / 1000} kHz.`;
      position.max = length();
      position.closest("label").hidden = time.hidden = false;
      root.exact = { buffers: made.buffers, now, isB };
    }
    start(at);
  }
  // Without decoding: two players of the browser, a few milliseconds apart.
  function loosely() {
    const [a, b] = both;
    a.muted = isB();
    b.muted = !isB();
    if (!a.paused) { a.pause(); b.pause(); return; }
    b.currentTime = a.currentTime;
    Promise.all([a.play(), b.play()]).catch(() => { a.pause(); b.pause(); });
    a.onpause = () => { label("Play both "); b.pause(); };
    label("Pause both ");
  }
  function hear() {
    ab.setAttribute("aria-pressed", !isB());
    if (made) volumes();
    both.forEach((p, n) => { p.muted = failed && (n === 1) !== isB(); });
  }
  play.onclick = toggle;
  ab.onclick = hear;
  position.oninput = () => { const runs = nodes; stop(); at = +position.value; if (runs) start(at); else tick(); };
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e) || e.target.closest("button, audio")) return;
    if (e.key === " ") toggle();
    else if (e.key.toLowerCase() === "b") hear();
    else return;
    e.preventDefault();
  });
}

function films(root) {
  const [a, b] = all("video", root);
  const play = one("[data-play]", root);
  one(".toolbar", root).hidden = false;
  const label = (text) => { play.firstChild.textContent = text; };
  const toggle = () => {
    if (!a.paused) { a.pause(); b.pause(); return; }
    b.currentTime = a.currentTime;
    Promise.all([a.play(), b.play()]).catch(() => { a.pause(); b.pause(); });
  };
  const both = (time) => { a.pause(); b.pause(); a.currentTime = b.currentTime = Math.max(0, time); };
  play.onclick = toggle;
  a.onplay = () => label("Pause both ");
  a.onpause = () => { label("Play both "); b.pause(); };
  a.onseeked = () => { if (Math.abs(a.currentTime - b.currentTime) > 0.02) b.currentTime = a.currentTime; };
  for (const button of all("[data-step]", root)) button.onclick = () => both(a.currentTime + button.dataset.step / 24);
  b.muted = true;
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e) || e.target.closest("button, video")) return;
    if (e.key === " ") toggle();
    else if (e.key === ",") both(a.currentTime - 1 / 24);
    else if (e.key === ".") both(a.currentTime + 1 / 24);
    else return;
    e.preventDefault();
  });
}

// HEVC and the like show a black picture and no error: the width tells.
function film(video) {
  const say = () => { const p = one(".unplayable", video.parentNode); if (p) { p.hidden = false; video.hidden = true; } };
  video.onerror = say;
  video.onloadedmetadata = () => { if (!video.videoWidth) say(); };
}

// Content on its way: the page comes again when it is here.
function getting(part) {
  const bar = one("progress", part), text = one("[data-progress]", part);
  const ask = async () => {
    try {
      const state = await (await fetch("/getting?json")).json();
      if (state.state !== "under way") return location.reload();
      if (state.total) { bar.max = state.total; bar.value = state.bytes; }
      text.textContent = `${(100 * state.bytes / (state.total || 1)).toFixed(0)} %`;
      setTimeout(ask, 500);
    } catch { text.textContent = "The server does not answer. Start dmv web again."; }
  };
  ask();
}

// A change under way: its page leads on when it has ended.
function doing(part) {
  const bar = one("progress", part), text = one("[data-progress]", part);
  const ask = async () => {
    try {
      const state = await (await fetch(part.dataset.doing + "?json")).json();
      if (state.state !== "under way") return location.replace(part.dataset.doing);
      if (state.total_bytes > state.bytes) { bar.max = state.total_bytes; bar.value = state.bytes; }
      text.textContent = state.progress;
      setTimeout(ask, 500);
    } catch { text.textContent = "The server does not answer. Start dmv web again."; }
  };
  setTimeout(ask, 300);
}

// What a decoder knows about the file, or why it shows nothing.
async function facts(list) {
  const view = one(".stage img.view");
  if (view && !view.complete) await new Promise((done) => { view.onload = view.onerror = done; });
  const found = await (await fetch(list.dataset.facts)).json();
  const add = (name, value) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name[0].toUpperCase() + name.slice(1);
    dd.textContent = value;
    list.append(dt, dd);
  };
  for (const [name, value] of found.facts ?? []) add(name, value);
  const told = one("[data-reason]");
  if (found.reason && told) told.textContent = `No preview: ${found.reason}.`;
}

// A part of the page that takes longer than the rest.
async function late(part) {
  try {
    const answer = await fetch(part.dataset.load);
    if (!answer.ok) throw answer;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body.firstElementChild;
    if (!fresh) throw answer;
    // It keeps the size of its place, so that nothing jumps.
    fresh.classList.add("late");
    part.replaceWith(document.adoptNode(fresh));
    for (const form of all("form[data-files]")) picks(form);
    // It may not be finished yet, and says how far it is.
    if (fresh.dataset.load) late(fresh);
  } catch (e) {
    one(".empty", part).textContent = e.status ? "Your files could not be compared." : "The server does not answer. Start dmv web again.";
    one(".unscripted", part).classList.add("shown");
  }
}

// The files to commit: the button says how many are checked.
function picks(form) {
  const boxes = () => [...document.querySelectorAll(`input[type=checkbox][form="${form.id}"]`)];
  const button = one("button", form), all = +form.dataset.files, text = button.textContent;
  const tell = () => {
    const n = boxes().filter((box) => box.checked).reduce((sum, box) => sum + +box.dataset.count, 0);
    button.disabled = n === 0;
    button.textContent = n === all ? text : n === 0 ? "No file is checked" : `${text} ${n === 1 ? "1 file" : n + " files"}`;
  };
  const tools = one("[data-picks]");
  if (tools) {
    tools.hidden = false;
    for (const pick of document.querySelectorAll("[data-pick]")) pick.onclick = () => {
      for (const box of boxes()) box.checked = pick.dataset.pick === "all";
      tell();
    };
  }
  for (const box of boxes()) box.addEventListener("change", tell);
  tell();
}

// A form is sent once.
addEventListener("submit", (e) => {
  if (e.target.method !== "post") return;
  if (e.target.dataset.sent) return e.preventDefault();
  e.target.dataset.sent = "yes";
  e.target.setAttribute("aria-busy", "true");
});
addEventListener("pageshow", () => all("form").forEach((form) => { delete form.dataset.sent; form.removeAttribute("aria-busy"); }));

for (const root of all("[data-compare]")) compare(root);
for (const root of all("[data-players]")) (one("audio", root) ? sounds : films)(root);
for (const part of all("[data-load]")) late(part);
for (const form of all("form[data-files]")) picks(form);
for (const video of all("[data-film]")) film(video);
for (const part of all("[data-getting]")) getting(part);
for (const part of all("[data-doing]")) doing(part);
for (const list of all("[data-facts]")) facts(list).catch(() => {});
