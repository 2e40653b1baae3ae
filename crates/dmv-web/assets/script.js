"use strict";
// Everything works without this, apart from the ways to compare pictures and the locked players.
const all = (what, where = document) => [...where.querySelectorAll(what)];
const one = (what, where = document) => where.querySelector(what);
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
const typing = (e) => e.target.closest("input:not([type=radio]), textarea, select, [contenteditable]");

function compare(root) {
  const [a, b] = all(".pane", root);
  const pictures = all("img", root);
  const slide = one("[data-slide]", root), bright = one("[data-bright]", root);
  const name = one("[data-slide-name]", root), told = one("[data-told]", root);
  let show = "side", zoom = 1, x = 0, y = 0, timer = 0;
  one(".toolbar", root).hidden = false;

  function draw() {
    for (const img of pictures) {
      img.style.transform = `translate(${x}px, ${y}px) scale(${zoom})`;
      img.style.filter = bright.value === "0" ? "" : `brightness(${2 ** bright.value})`;
      img.style.imageRendering = zoom >= 4 ? "pixelated" : "";
    }
    b.style.clipPath = show === "swipe" ? `inset(0 0 0 ${slide.value}%)` : "";
    b.style.opacity = show === "onion" ? slide.value / 100 : "";
    slide.disabled = show !== "swipe" && show !== "onion";
    name.textContent = show === "onion" ? "Opacity of B" : "Position";
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
    draw();
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
  slide.oninput = bright.oninput = draw;
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

function players(root) {
  const [a, b] = all("audio, video", root);
  const play = one("[data-play]", root), ab = one("[data-ab]", root);
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
  const hear = () => {
    const on = ab.getAttribute("aria-pressed") !== "true";
    ab.setAttribute("aria-pressed", on);
    a.muted = on;
    b.muted = !on;
  };
  if (ab) { ab.onclick = hear; b.muted = true; }
  else b.muted = true;
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e) || e.target.closest("button, audio, video")) return;
    if (e.key === " ") toggle();
    else if (e.key === "," && !ab) both(a.currentTime - 1 / 24);
    else if (e.key === "." && !ab) both(a.currentTime + 1 / 24);
    else if (e.key.toLowerCase() === "b" && ab) hear();
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

// What a decoder knows about the file, or why it shows nothing.
async function facts(list) {
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

// A form is sent once.
addEventListener("submit", (e) => {
  if (e.target.method !== "post") return;
  if (e.target.dataset.sent) return e.preventDefault();
  e.target.dataset.sent = "yes";
  e.target.setAttribute("aria-busy", "true");
});
addEventListener("pageshow", () => all("form").forEach((form) => { delete form.dataset.sent; form.removeAttribute("aria-busy"); }));

for (const root of all("[data-compare]")) compare(root);
for (const root of all("[data-players]")) players(root);
for (const video of all("[data-film]")) film(video);
for (const part of all("[data-getting]")) getting(part);
for (const list of all("[data-facts]")) facts(list).catch(() => {});
