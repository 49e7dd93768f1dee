// SPDX-License-Identifier: Apache-2.0
// The report's controls, to choose, filter and save. The page is complete without them.
"use strict";
(() => {
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const parsed = (id) => { const found = document.getElementById(id); return found && JSON.parse(found.textContent); };
const root = document.documentElement;

// Light and dark: the system's choice until the button is pressed, then the reader's for this visit.
const theme = $("#theme"), dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
const nameTheme = () => { $("#theme-name").textContent = isDark() ? "Light" : "Dark"; };
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  try { sessionStorage.setItem("strata-theme", root.dataset.theme); } catch { /* a page without storage forgets it */ }
  nameTheme();
});
dark.addEventListener("change", nameTheme);
nameTheme();

// On a narrow window the contents and the filters would push the answer out of sight.
if (matchMedia("(max-width: 74.99rem)").matches) for (const each of $$(".side .fold")) each.open = false;

// The contents say where the reader is.
const links = new Map($$(".side nav a").map((link) => [link.hash.slice(1), link]));
const inView = new Set();
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) inView[entry.isIntersecting ? "add" : "delete"](entry.target.id);
  const first = [...links.keys()].find((id) => inView.has(id));
  for (const [id, link] of links) id === first ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
}, { rootMargin: "-10% 0px -55% 0px" });
for (const id of links.keys()) { const section = document.getElementById(id); if (section) watcher.observe(section); }

// The heat map.
const data = parsed("cells-data"), heat = $("#heat"), tip = $("#tip");
const cells = heat ? $$("tbody tr", heat).map((row) => $$("td", row)) : [];
const numbers = $$(".numbers tbody tr");

function tellOf(cell, stack, workload, value, found, reference) {
  if (!found) return `${stack} under ${workload}: ` + (stack === reference && value ? `the reference, ${value}` : "no result");
  return `${stack} under ${workload}: ${found[3]} of ${reference}, ${value}; ${found[2] || "not compared"}`;
}

// A large study carries the comparisons with one stack alone. With others the estimates are divided, without interval.
const UPPER = [0.5, 2 ** -0.5, 2 ** -0.25, 1 / 1.03, 1.03, 2 ** 0.25, 2 ** 0.5, 2];
const stepOf = (gain) => UPPER.filter((limit, i) => (i < 4 ? gain > limit : i === 4 ? gain > limit : gain >= limit)).length;
function estimated(base) {
  return data.estimates.map((row, i) => row.map((value, j) => {
    if (j === base || !value || !row[base]) return 0;
    const gain = data.better[i] === "higher" ? value / row[base] : row[base] / value;
    const text = gain > 100 ? "> 100" : gain < 0.01 ? "< 0.01" : gain < 9.995 ? gain.toFixed(2) : String(Math.round(gain));
    return [text, stepOf(gain), "", `${text} × (no interval in this page)`, "–", "–"];
  }));
}

function compareWith(reference) {
  const against = data.against[data.references.indexOf(reference)] ?? estimated(data.stacks.indexOf(reference));
  for (const each of $$("[data-reference]")) each.textContent = reference;
  data.workloads.forEach((workload, i) => data.stacks.forEach((stack, j) => {
    const found = against[i][j], value = data.values[i][j], cell = cells[i][j];
    const isReference = !found && stack === reference && value;
    cell.className = found ? `g${found[1]}` : isReference ? "ref" : "none";
    cell.dataset.verdict = (found && found[2]) || "";
    cell.dataset.words = tellOf(cell, stack, workload, value, found, reference);
    cell.textContent = found ? found[0] : isReference ? "1" : "–";
    if (found && data.signs[found[2]]) { const sign = document.createElement("i"); sign.textContent = data.signs[found[2]]; cell.append(sign); }
    const row = numbers[i * data.stacks.length + j].children;
    row[5].textContent = found ? found[3] : isReference ? "reference" : "–";
    row[6].textContent = (found && found[2]) || "";
    if (found) row[4].textContent = found[4];
  }));
}

function showTip(cell) {
  tip.textContent = cell.dataset.words;
  tip.hidden = false;
  const box = cell.getBoundingClientRect();
  const left = Math.min(Math.max(8, box.left + box.width / 2 - tip.offsetWidth / 2), innerWidth - tip.offsetWidth - 8);
  const above = box.top - tip.offsetHeight - 8;
  tip.style.left = `${left + scrollX}px`;
  tip.style.top = `${(above > 0 ? above : box.bottom + 8) + scrollY}px`;
  cell.setAttribute("aria-describedby", "tip");
}
function hideTip() {
  tip.hidden = true;
  for (const each of $$("[aria-describedby=tip]")) each.removeAttribute("aria-describedby");
}

if (heat) {
  for (const cell of cells.flat()) { cell.dataset.words = cell.title; cell.removeAttribute("title"); }
  compareWith($("#reference").value);
  $("#reference").addEventListener("change", (event) => { compareWith(event.target.value); filter(); });
  const of = (event) => event.target.closest("td");
  heat.addEventListener("pointerover", (event) => { const cell = of(event); cell ? showTip(cell) : hideTip(); });
  heat.addEventListener("pointerleave", hideTip);
  heat.addEventListener("focusin", (event) => { const cell = of(event); if (cell) { roam(cell); showTip(cell); } });
  heat.addEventListener("focusout", hideTip);
  // One stop of the Tab key; within, the arrow keys.
  let current = cells[0]?.[0];
  const roam = (cell) => { current.tabIndex = -1; cell.tabIndex = 0; current = cell; };
  if (current) current.tabIndex = 0;
  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  heat.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return hideTip();
    if (!of(event)) return;
    const shown = cells.filter((row) => row[0].parentElement.offsetParent).map((row) => row.filter((cell) => cell.offsetParent));
    const i = shown.findIndex((row) => row.includes(current)), j = shown[i]?.indexOf(current);
    let target;
    if (STEPS[event.key]) target = shown[i + STEPS[event.key][0]]?.[j + STEPS[event.key][1]];
    else if (event.key === "Home") target = shown[i]?.[0];
    else if (event.key === "End") target = shown[i]?.at(-1);
    else return;
    event.preventDefault();
    target?.focus();
  });
}

// Filters: a style sheet of its own hides the rest, in tables, charts and contents alike.
const form = $("#filters"), rules = document.head.appendChild(document.createElement("style"));
const named = (attribute, name) => `[${attribute}="${CSS.escape(name)}"]`;

function filter() {
  const wanted = $("#search").value.trim().toLowerCase(), verdict = $("#verdict").value;
  const checked = (name) => new Set($$(`input[name=${name}]:checked`, form).map((input) => input.value));
  let stacks = data.stacks.filter((name) => checked("stack").has(name));
  let workloads = data.workloads.filter((name) => checked("workload").has(name));
  if (wanted) {
    const fits = (name) => name.toLowerCase().includes(wanted);
    const inTitle = (name) => (document.getElementById(`workload-${name}`)?.querySelector(".title")?.textContent || "").toLowerCase().includes(wanted);
    const found = [stacks.filter(fits), workloads.filter((name) => fits(name) || inTitle(name))];
    if (found[0].length || !found[1].length) stacks = found[0];
    if (found[1].length || !found[0].length) workloads = found[1];
  }
  let count = 0;
  cells.forEach((row, i) => {
    let fits = 0;
    row.forEach((cell, j) => {
      const shown = !verdict || cell.dataset.verdict === verdict;
      cell.classList.toggle("dim", !shown);
      numbers[i * row.length + j].hidden = !shown;
      if (shown && stacks.includes(data.stacks[j])) fits += 1;
    });
    if (verdict && !fits) workloads = workloads.filter((name) => name !== data.workloads[i]);
    if (workloads.includes(data.workloads[i])) count += fits;
  });
  const gone = [
    ...data.stacks.filter((name) => !stacks.includes(name)).map((name) => named("data-stack", name)),
    ...data.workloads.filter((name) => !workloads.includes(name)).map((name) => named("data-workload", name)),
  ];
  rules.textContent = gone.length
    ? `${gone.map((each) => `${each}:not(g)`).join()}{display:none}${gone.map((each) => `g${each}`).join()}{opacity:.1}`
    : "";
  const all = data.stacks.length * data.workloads.length;
  $("#status").textContent = count === all ? "" : count
    ? `${count} of ${all} cells are shown: ${stacks.length} of ${data.stacks.length} stacks, ${workloads.length} of ${data.workloads.length} workloads.`
    : "No cell fits these filters.";
}

if (form && data) {
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
}

// Only scrollable parts are stops of the Tab key; what hides a part of itself at the right fades out there.
const fade = (part) => part.classList.toggle("more-right", part.scrollWidth - part.clientWidth - part.scrollLeft > 4);
const wide = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    fade(target);
    target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight ? (target.tabIndex = 0) : target.removeAttribute("tabindex");
  }
});
for (const each of $$(".table, pre, [role=img]")) { wide.observe(each); each.addEventListener("scroll", () => fade(each), { passive: true }); }

// The data.
function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
$("#save-json").addEventListener("click", () => {
  const raw = parsed("raw-data");
  save(`${raw.study}.json`, "application/json", JSON.stringify(raw, null, 1) + "\n");
});
$("#save-csv").addEventListener("click", () => {
  const raw = parsed("raw-data"), lines = ["workload,stack,seed,metric,value,unit,better"];
  for (const { workload, metrics } of raw.workloads)
    for (const each of metrics)
      each.values.forEach((row, i) => row.forEach((value, j) => {
        if (value !== null) lines.push([workload, raw.stacks[i], raw.seeds[j], each.metric, value, each.unit, each.better].join());
      }));
  save(`${raw.study}.csv`, "text/csv", lines.join("\n") + "\n");
});

// On paper nothing can be unfolded: the reasons of the advice are printed.
const reasons = [...document.querySelectorAll("#advice details:not([open])")];
addEventListener("beforeprint", () => reasons.forEach((each) => { each.open = true; }));
addEventListener("afterprint", () => reasons.forEach((each) => { each.open = false; }));
})();
