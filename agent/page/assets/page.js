// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// The page is whole without this script, which puts in what the stream says has changed. chart.js stands before it.

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

// A page that was kept by the browser comes back with a dead stream.
addEventListener("pageshow", (event) => { if (event.persisted) listen(); });
addEventListener("pagehide", () => source?.close());
listen();
