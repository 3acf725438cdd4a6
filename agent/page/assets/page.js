// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// The page is whole without this script. It puts in what the stream says has changed, and reads charts out under the
// pointer and the arrow keys.
"use strict";

const connection = document.getElementById("connection");
let source = null;
let lastHeard = Date.now();
let loading = false;
let again = false;

function listen() {
  const main = document.getElementById("main");
  if (source) source.close();
  source = null;
  if (!main.dataset.stream) return;
  source = new EventSource(main.dataset.stream);
  source.addEventListener("cells", (event) => {
    heard();
    put(JSON.parse(event.data));
  });
  source.addEventListener("shape", (event) => {
    heard();
    if (JSON.parse(event.data).shape !== document.getElementById("main").dataset.shape) load();
  });
  source.onerror = () => say();
}

function heard() {
  lastHeard = Date.now();
  if (connection.textContent) connection.textContent = "";
}

// say tells that the numbers are old: nothing else on the page would.
function say() {
  if (!source || Date.now() - lastHeard < 5000) return;
  const text = "The connection to the agent is lost; these numbers are of " + clock(lastHeard) + ".";
  if (connection.textContent !== text) connection.textContent = text;
  if (source.readyState === EventSource.CLOSED) listen();
}
setInterval(say, 2000);

// put replaces the content of elements by name. What the server sends is rendered by the templates that rendered the
// page, with every name in it escaped.
function put(cells) {
  for (const element of document.querySelectorAll("[data-live]")) {
    const html = cells[element.dataset.live];
    if (html === undefined || element.contains(document.activeElement)) continue;
    element.innerHTML = html;
  }
  for (const chart of document.querySelectorAll(".chart")) readAgain(chart);
}

// load fetches the page anew where rows came or went, and keeps place and focus.
async function load() {
  again = loading;
  if (loading) return;
  loading = true;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    const main = document.getElementById("main");
    const focused = document.activeElement && main.contains(document.activeElement) ? path(document.activeElement) : "";
    const open = [...main.querySelectorAll("details")].map((d) => d.open);
    const typed = main.querySelector("#q");
    main.replaceWith(fresh.getElementById("main"));
    const now = document.getElementById("main");
    now.querySelectorAll("details").forEach((d, i) => { d.open = open[i] || false; });
    if (typed && now.querySelector("#q")) now.querySelector("#q").value = typed.value;
    if (focused) [...now.querySelectorAll("a, input, button, summary, [tabindex]")].find((e) => path(e) === focused)?.focus();
    document.title = fresh.title;
    if (!response.ok || now.dataset.stream !== main.dataset.stream) listen();
  } catch {
    say();
  } finally {
    // Not at once again: a page that changes all the time shall not be loaded all the time.
    setTimeout(() => { loading = false; if (again) load(); }, 1000);
  }
}

// path names an element that can have the focus, over two loads of a page.
function path(element) {
  return [element.tagName, element.id, element.getAttribute("href"), element.getAttribute("aria-label"), element.textContent.trim().slice(0, 40)].join("|");
}

// ---- charts ----

const crossAt = new WeakMap(); // chart → time in milliseconds

function dataOf(chart) {
  const svg = chart.querySelector("svg[data-chart]");
  return svg ? { svg, data: JSON.parse(svg.dataset.chart) } : null;
}

// read shows the values nearest to a time, in this chart aloud and in the others by the line alone.
function read(chart, time) {
  const drawn = dataOf(chart);
  const out = chart.querySelector(".read-out");
  const cross = chart.querySelector(".cross");
  if (!drawn || drawn.data.times.length === 0 || time === undefined) {
    cross.hidden = true;
    out.textContent = "";
    crossAt.delete(chart);
    return;
  }
  const { svg, data } = drawn;
  let nearest = 0;
  data.times.forEach((t, i) => { if (Math.abs(t - time) < Math.abs(data.times[nearest] - time)) nearest = i; });
  const at = data.times[nearest];
  crossAt.set(chart, at);
  const box = svg.getBoundingClientRect();
  const outer = chart.getBoundingClientRect();
  cross.hidden = false;
  cross.style.left = box.left - outer.left + box.width * (at - data.since) / (data.until - data.since) + "px";
  cross.style.top = box.top - outer.top + "px";
  cross.style.height = box.height + "px";
  const values = data.series.map((s) => s.label + " " + (s.values[nearest] === null ? "–" : format(data.scale, s.values[nearest])));
  out.textContent = clock(at) + "  " + values.join(", ");
}

function readAll(time) {
  for (const chart of document.querySelectorAll(".chart")) read(chart, time);
}

function readAgain(chart) {
  if (crossAt.has(chart)) read(chart, crossAt.get(chart));
}

document.addEventListener("pointermove", (event) => {
  const chart = event.target.closest?.(".chart");
  if (!chart) {
    if (!document.activeElement?.classList.contains("chart")) readAll();
    return;
  }
  const drawn = dataOf(chart);
  if (!drawn) return;
  const box = drawn.svg.getBoundingClientRect();
  const share = (event.clientX - box.left) / box.width;
  readAll(share < 0 || share > 1 ? undefined : drawn.data.since + share * (drawn.data.until - drawn.data.since));
});

document.addEventListener("keydown", (event) => {
  const chart = event.target.closest?.(".chart");
  if (!chart) return;
  const drawn = dataOf(chart);
  if (!drawn || drawn.data.times.length === 0) return;
  const times = drawn.data.times;
  const last = times.length - 1;
  const now = crossAt.has(chart) ? times.indexOf(crossAt.get(chart)) : last + 1;
  const to = { ArrowLeft: Math.max(0, now - 1), ArrowRight: Math.min(last, now + 1), Home: 0, End: last }[event.key];
  if (event.key === "Escape") readAll();
  if (to === undefined) return;
  event.preventDefault();
  readAll(times[to]);
});
document.addEventListener("focusout", (event) => { if (event.target.classList?.contains("chart")) readAll(); });

// ---- numbers, as the server writes them ----

// format writes a value as Unit.Text of procstats does.
function format(scale, value) {
  const trimmed = (digits) => String(Number(value.toFixed(digits)));
  if (scale === "share") { value *= 100; return (value > 0 && value < 0.05 ? "<0.1" : trimmed(1)) + " %"; }
  if (scale === "cores") return value > 0 && value < 0.0005 ? "<0.001" : value.toFixed(value > 0 && value < 0.0995 ? 3 : value < 99.995 ? 2 : 1);
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let i = 0;
  while (value >= 1023.5 && i < units.length - 1) { value /= 1024; i++; }
  return trimmed(i === 0 || value >= 99.95 ? 0 : value < 9.995 ? 2 : 1) + " " + units[i] + (scale === "rate" ? "/s" : "");
}

// clock writes a time of day where the agent is, as the rest of the page does.
function clock(time) {
  return new Date(time + Number(document.documentElement.dataset.zone) * 1000).toISOString().slice(11, 19);
}

// A page that was kept by the browser comes back with a dead stream.
addEventListener("pageshow", (event) => { if (event.persisted) listen(); });
addEventListener("pagehide", () => source?.close());
listen();
