// What asyncq does now, what is wrong, and why.

import { html, useState } from "../preact.js";
import { Chart, stepOf } from "../chart.js";
import { duration, number, shortened } from "../format.js";
import { useLive } from "../live.js";
import { Link, Loaded, Table, When, query, useGet } from "../parts.js";
import { STATES, STATE_WORDS } from "../words.js";

export function Overview() {
  const live = useLive();
  const failures = useGet("failures", 10000);
  return html`<h1>Overview</h1>
    <${Loaded} state=${live}>${(seen) => html`<${Now} seen=${seen} />`}<//>
    <div><${Charts} /></div>
    <h2>Failed for good, by error</h2>
    <${Loaded} state=${failures}>${({ failures }) => html`<${Failures} rows=${failures} />`}<//>`;
}

function Now({ seen }) {
  const { counts } = seen;
  const about = (state) => (counts.estimated.includes(state) ? "about " : "");
  return html`
    ${seen.warnings.map((text) => html`<p class="fault" key=${text}>${text}</p>`)}
    ${seen.paused.map((pause) => html`<p class="note" key=${pause.what + pause.name + pause.key}>
      <${Link} to="limits">${pauseWords(pause)}<//>, <${When} at=${pause.paused_at} />, by ${pause.paused_by}${pause.reason ? `: ${pause.reason}` : ""}
    </p>`)}
    <div class="tiles">
      ${STATES.filter((state) => state !== "cancelled" || counts.cancelled).map((state) => html`
        <a class="tile ${state} ${counts[state] ? "some" : ""}" key=${state} href="#/jobs${query({ state })}">
          <span>${state}</span><b>${about(state)}${number(counts[state])}</b><small>${STATE_WORDS[state]}</small>
        </a>`)}
      <div class="tile"><span>oldest due</span><b>${seen.oldest_due_s === null ? "none" : duration(seen.oldest_due_s)}</b>
        <small>how long the first job has waited</small></div>
      <a class="tile" href="#/workers"><span>workers</span><b>${number(seen.workers)}</b>
        <small>${number(seen.busy)} of ${number(seen.slots)} slots busy${seen.stuck ? `, ${seen.stuck} stuck` : ""}</small></a>
    </div>`;
}

export function pauseWords({ what, name, key }) {
  if (what === "everything") return "Everything is paused";
  return what === "key" ? `The key ${key} of the limit ${name} is paused` : `The ${what} ${name} is paused`;
}

const RANGES = [[60, "1 hour"], [360, "6 hours"], [1440, "1 day"], [10080, "1 week"]];

function Charts() {
  const [minutes, setMinutes] = useState(60);
  const state = useGet(`series?minutes=${minutes}`, 10000);
  return html`<div class="bar" role="group" aria-label="Time of the charts">
      ${RANGES.map(([value, word]) => html`<button key=${value} class="small" aria-pressed=${value === minutes} onClick=${() => setMinutes(value)}>${word}</button>`)}
    </div>
    <${Loaded} state=${state}>${(series) => html`<${Drawn} key=${minutes} ...${series} />`}<//>`;
}

function Drawn({ ended, depths }) {
  return html`<div class="charts">
    <${Chart} title="Attempts ended per ${stepOf(ended.at)}" isSum at=${ended.at} lines=${[
      ["completed", ended.completed], ["retried", ended.retried], ["discarded", ended.discarded]]} />
    <${Chart} title="Wait and run time, 95th percentile" at=${ended.at} unit="s" lines=${[
      ["wait", ended.waited_p95], ["run", ended.took_p95]]} />
    <${Chart} title="Waiting and running jobs" at=${depths.at} lines=${[
      ["available", depths.available], ["active", depths.active]]} />
  </div>`;
}

function Failures({ rows }) {
  return html`<${Table} label="Failures" rows=${rows} keyOf=${(row) => row.task + row.first_line} none="No job has failed for good."
    columns=${[
      ["Jobs", (row) => html`<${Link} to="jobs${query({ state: "discarded", task: row.task, error: shortened(row.first_line ?? "", 200).replace("…", "") })}">${number(row.jobs)}<//>`, "number"],
      ["Task", (row) => html`<${Link} to="tasks/${encodeURIComponent(row.task)}">${row.task}<//>`],
      ["Error", (row) => html`<code>${row.first_line}</code>`, "wide"],
      ["Newest", (row) => html`<${Link} to="jobs/${row.job_id}"><${When} at=${row.newest} /><//>`],
    ]} />`;
}
