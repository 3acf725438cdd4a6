// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// The page is whole without this script, which puts in what the stream says has changed. chart.js stands before it.

const connection = document.getElementById("connection");
let source = null;
let lastHeard = Date.now();
let loading = false;
let again = false;

// listen follows the changes of the page as it was loaded. Of what was missed before the stream opens again the server knows nothing, nor,
// after a while, which rows the page has: it is loaded anew.
function listen(missed = false) {
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
  source.onopen = () => {
    if (missed) load();
    missed = true;
  };
  source.onerror = () => say();
}

function heard() {
  lastHeard = Date.now();
  if (connection.textContent) connection.textContent = "";
  document.body.classList.remove("lost");
}

// say tells that the numbers are old: nothing else on the page would.
function say() {
  if (!source || Date.now() - lastHeard < 5000) return;
  const text = "The connection to the agent is lost; these numbers are of " + clock(lastHeard) + ".";
  if (connection.textContent !== text) connection.textContent = text;
  document.body.classList.add("lost"); // a reading of so many seconds ago stays where it was
  if (source.readyState === EventSource.CLOSED) listen(true);
}
setInterval(say, 2000);

// put replaces the content of elements by name. What the server sends is rendered by the templates that rendered the
// page, with every name in it escaped.
function put(cells) {
  for (const [name, html] of Object.entries(cells)) {
    const element = elements().get(name);
    if (!element || hold(element, name, html)) continue;
    const log = element.querySelector("pre");
    const atEnd = !log || log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    const place = log?.scrollTop;
    element.innerHTML = html;
    const now = element.querySelector("pre");
    if (now) now.scrollTop = atEnd ? now.scrollHeight : place;
    if (name === "order") reorder();
  }
  for (const chart of document.querySelectorAll(".chart")) readAgain(chart);
}

// reorder moves the rows of the table of tasks, but none under the pointer or the focus.
function reorder() {
  const order = elements().get("order");
  const body = document.querySelector(".tasks:not(.ended) tbody");
  if (!order || body.matches(":hover, :focus-within") || body.dataset.order === order.textContent) return;
  body.dataset.order = order.textContent;
  body.append(...order.textContent.split(" ").map((i) => known.rows[i]));
}
for (const event of ["pointerout", "focusout"]) document.addEventListener(event, () => setTimeout(reorder));

// hold leaves an element alone that has the focus in it, until it goes elsewhere. What can only be scrolled by its keys, such as a log, gets
// its new content all the same.
const held = new Map();
function hold(element, name, html) {
  held.delete(name);
  const focused = document.activeElement;
  if (!element.contains(focused)) return false;
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const now = fresh.content.querySelectorAll("[tabindex]");
  if (focused.matches("[tabindex]") && now.length === 1 && !fresh.content.querySelector("a, button, input, summary")) {
    const atEnd = focused.scrollTop + focused.clientHeight >= focused.scrollHeight - 4;
    focused.replaceChildren(...now[0].childNodes);
    if (atEnd) focused.scrollTop = focused.scrollHeight;
  } else held.set(name, html);
  return true;
}
document.addEventListener("focusout", () => setTimeout(() => put(Object.fromEntries(held))));

// elements are those that change, by name; they stay until the page is loaded anew.
let known = null;
function elements() {
  const main = document.getElementById("main");
  if (known?.main !== main) {
    known = { main, rows: [...document.querySelectorAll(".tasks:not(.ended) tbody tr")], map: new Map([...document.querySelectorAll("[data-live]")].map((e) => [e.dataset.live, e])) };
  }
  return known.map;
}

// A part of a chart that is drawn over with the pointer is shown alone; the links beside the spans do the same.
let drawn = null;
document.addEventListener("pointerdown", (event) => {
  const svg = event.button === 0 && event.pointerType === "mouse" ? event.target.closest?.(".plot svg") : null;
  drawn = svg && { svg, from: event.clientX };
  if (svg) event.preventDefault();
});
document.addEventListener("pointerup", (event) => {
  if (!drawn || Math.abs(event.clientX - drawn.from) < 8) { drawn = null; return; }
  const box = drawn.svg.getBoundingClientRect();
  const { since, until } = JSON.parse(drawn.svg.dataset.chart);
  const [from, to] = [drawn.from, event.clientX].sort((a, b) => a - b).map((x) => since + (until - since) * Math.min(1, Math.max(0, (x - box.left) / box.width)));
  drawn = null;
  const seconds = Math.max(10, Math.round((to - from) / 1000));
  const address = new URL(location.href);
  address.searchParams.set("span", seconds + "s");
  address.searchParams.set("until", Math.ceil(to / 1000));
  address.hash = "#history-title";
  location.href = address.href;
});

// load fetches the page anew where rows came or went, and keeps place and focus.
async function load() {
  again = loading;
  if (loading) return;
  loading = true;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    if (!fresh.getElementById("main")) throw new Error("no page"); // but a message of whatever stands between
    held.clear();
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
    setTimeout(() => { loading = false; if (again) load(); }, 3000);
  }
}

// path names an element that can have the focus, over two loads of a page.
function path(element) {
  return [element.tagName, element.id, element.getAttribute("href"), element.getAttribute("aria-label"), element.textContent.trim().slice(0, 40)].join("|");
}

// A page that was kept by the browser comes back with a dead stream.
addEventListener("pageshow", (event) => { if (event.persisted) listen(); });
addEventListener("pagehide", () => source?.close());
for (const log of document.querySelectorAll(".log pre")) log.scrollTop = log.scrollHeight;
listen();
