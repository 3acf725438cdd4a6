// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Charts are whole without this script, which reads them out under the pointer and the arrow keys.
"use strict";

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
  const values = data.series.map((s) => s.label + " " + (s.values[nearest] === null ? "–" : format(data.unit, s.values[nearest])));
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

// format writes a value as Unit.Text of procstats does.
function format(unit, value) {
  const trimmed = (digits) => String(Number(value.toFixed(digits)));
  if (unit === "share") { value *= 100; return (value > 0 && value < 0.05 ? "<0.1" : trimmed(1)) + " %"; }
  if (unit === "cores") return value > 0 && value < 0.0005 ? "<0.001" : value.toFixed(value > 0 && value < 0.0995 ? 3 : value < 99.995 ? 2 : 1);
  if (!unit.startsWith("bytes")) return trimmed(2);
  if (value > 0 && value < 0.5) return "<1 B" + (unit === "bytes" ? "" : "/s");
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let i = 0;
  while (value >= 1023.5 && i < units.length - 1) { value /= 1024; i++; }
  return trimmed(i === 0 || value >= 99.95 ? 0 : value < 9.995 ? 2 : 1) + " " + units[i] + (unit === "bytes" ? "" : "/s");
}

// clock writes a time of day where the agent is, as the rest of the page does.
function clock(time) {
  return new Date(time + Number(document.documentElement.dataset.zone) * 1000).toISOString().slice(11, 19);
}
