// One task: its jobs by number, and whether it is paused.

import { html } from "../preact.js";
import { Chart, Histogram, stepOf } from "../chart.js";
import { duration, number } from "../format.js";
import { Link, Loaded, query, useGet } from "../parts.js";
import { PauseButton } from "../pause.js";

export function Task({ name }) {
  const state = useGet("tasks", 5000);
  const series = useGet(`tasks/${encodeURIComponent(name)}?minutes=1440`, 10000);
  const pauses = useGet("pauses", 5000);
  const pause = pauses.value?.pauses.find((one) => one.what === "task" && one.name === name);
  return html`<div class="head"><h1>${name}</h1>${pauses.value && html`<${PauseButton} target=${{ task: name }} pause=${pause} reload=${pauses.reload} />`}</div>
    ${pause && html`<p class="note">Paused by ${pause.paused_by}${pause.reason ? `: ${pause.reason}` : ""}</p>`}
    <p><${Link} to="jobs${query({ task: name })}">Its jobs<//>, <${Link} to="jobs${query({ task: name, state: "discarded" })}">those that failed<//></p>
    <${Loaded} state=${state}>${({ tasks }) => html`<${Numbers} row=${tasks.find(({ task }) => task === name)} />`}<//>
    <${Loaded} state=${series}>${(found) => html`<${Day} ...${found} />`}<//>`;
}

function Numbers({ row }) {
  if (!row) return html`<p class="quiet">It has no jobs, and no live worker knows it.</p>`;
  const facts = [["due", row.due], ["waiting", row.waiting], ["running", row.running], ["failed for good", row.failed], ["workers that know it", row.workers]];
  return html`<div class="tiles">${facts.map(([word, value]) => html`<div class="tile" key=${word}><span>${word}</span>
    <b>${row.is_exact ? "" : "about "}${number(value)}</b></div>`)}</div>`;
}

function Day({ totals, ended }) {
  const facts = [
    ["completed", number(totals.completed)], ["retried", number(totals.retried)], ["discarded", number(totals.discarded)],
    ["run time, median", duration(totals.took_p50)], ["run time, 95th percentile", duration(totals.took_p95)], ["wait, 95th percentile", duration(totals.waited_p95)],
  ];
  return html`<h2>The last day</h2>
    <div class="tiles">${facts.map(([name, value]) => html`<div class="tile" key=${name}><span>${name}</span><b>${value || "none"}</b></div>`)}</div>
    <div class="charts">
      <${Chart} title="Attempts ended per ${stepOf(ended.at)}" isSum at=${ended.at} lines=${[["completed", ended.completed], ["retried", ended.retried], ["discarded", ended.discarded]]} />
      <${Histogram} title="Run time of attempts" counts=${totals.took} />
    </div>`;
}
