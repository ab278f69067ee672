// One job: why it does not run, its times, its payload, its errors.

import { html } from "../preact.js";
import { send } from "../api.js";
import { duration, exact, number, pretty } from "../format.js";
import { Badge, Link, Loaded, When, ask, attempt, may, query, useGet, useMe } from "../parts.js";
import { ACTIONS, REASONS, RIGHT_OF, allowed, dueOf } from "../words.js";

export function Job({ id }) {
  const state = useGet(`jobs/${id}`, 2000);
  return html`${state.value === null && html`<h1>Job ${id}</h1>`}<${Loaded} state=${state}>${(found) => html`<${Known} found=${found} reload=${state.reload} />`}<//>`;
}

function Known({ found, reload }) {
  const { job, errors, reasons } = found;
  return html`<div class="head"><h1>Job ${found.id}${job && html` <small>${job.task}</small>`}</h1>${job && html`<${Badge} state=${job.state} />`}</div>
    ${job ? html`<${Actions} job=${job} reload=${reload} />` : html`<p class="note">This job has ended and is not kept. Its failed attempts are.</p>`}
    ${reasons.length > 0 && html`<section class="reasons" aria-label="Why it does not run">
      ${reasons.map(({ reason, detail }) => html`<div key=${reason + detail}><b>${REASONS[reason] ?? reason.replaceAll("_", " ")}</b><p>${linked(detail)}</p></div>`)}
    </section>`}
    ${job && html`<${Facts} job=${job} />`}
    ${job?.progress && html`<${Progress} progress=${job.progress} />`}
    ${job && html`<${Text} title="Payload" text=${job.payload} hidden="It is not shown on this dashboard, or was not kept." />`}
    ${job?.result && html`<${Text} title="Result" text=${job.result} />`}
    ${job?.meta && html`<${Text} title="Meta" text=${JSON.stringify(job.meta)} />`}
    ${job?.last_error && html`<h2>Last error</h2><pre class="error">${job.last_error}</pre>`}
    ${errors.length > 0 && html`<h2>Failed attempts</h2>
      <ol class="attempts">${errors.map((attempt) => html`<li key=${attempt.number + attempt.ended_at}>
        <b>Attempt ${attempt.number}</b> ${attempt.kind}, <${When} at=${attempt.ended_at} />, after
        ${` ${duration((Date.parse(attempt.ended_at) - Date.parse(attempt.started_at)) / 1000)}`}, on worker ${attempt.worker_id}
        <details><summary><code>${attempt.error.split("\n", 1)[0]}</code></summary><pre>${attempt.error}</pre></details></li>`)}</ol>`}`;
}

// Ids of jobs in a sentence lead to these jobs; its times, which the server writes in UTC, are those of the browser.
const LINKED = /(\bjob \d+|\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+00\b)/;

function linked(detail) {
  return detail.split(LINKED).map((part, place) => {
    if (place % 2 === 0) return part;
    return part.startsWith("job ") ? html`<${Link} key=${place} to="jobs/${part.slice(4)}">${part}<//>` : exact(part.replace(" ", "T").replace("+00", "Z"));
  });
}

function Facts({ job }) {
  const times = [
    ["Added", job.created_at], ["Due", dueOf(job)], ["Claimed", job.locked_at], ["Started", job.started_at], ["Ended", job.ended_at],
    ["Expires", job.expires_at], ["Deadline", job.deadline_at], ["Kept until", job.keep_until],
  ].filter(([, at]) => at);
  const facts = [
    ["Task", html`<${Link} to="tasks/${encodeURIComponent(job.task)}">${job.task}<//>`],
    ["Queue", job.queue && html`<${Link} to="jobs${query({ queue: job.queue })}">${job.queue}<//>`],
    ["Attempts", `${job.attempts} of ${job.max_attempts}`],
    ["Priority", job.priority],
    ["Job key", job.key && html`<${Link} to="jobs${query({ key: job.key })}">${job.key}<//>`],
    ["Flags", job.flags.join(", ")],
    ["Time limit", job.timeout_s && duration(job.timeout_s)],
    ["Worker", (job.locked_by ?? job.worker_id) && html`<${Link} to="workers">${job.locked_by ?? job.worker_id}<//>`],
  ].filter(([, value]) => value !== null && value !== "" && value !== undefined);
  return html`<div class="facts">
    <dl>${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    <dl>${times.map(([name, at]) => html`<div key=${name}><dt>${name}</dt><dd>${exact(at)} <span class="quiet">(<${When} at=${at} />)</span></dd></div>`)}</dl>
  </div>`;
}

function Progress({ progress }) {
  const { done, total, note } = progress;
  return html`<h2>Progress</h2><p><progress value=${total ? done : null} max=${total ?? 1}></progress>
    ${` ${number(done)}${total ? ` of ${number(total)}` : ""}${note ? `, ${note}` : ""}`}</p>`;
}

function Text({ title, text, hidden = "" }) {
  return html`<h2>${title}</h2>${text === null ? html`<p class="quiet">${hidden}</p>` : html`<pre>${pretty(text)}</pre>`}`;
}

function Actions({ job, reload }) {
  const me = useMe();
  const offered = allowed(job).filter((name) => may(me, RIGHT_OF[name]));
  const act = async (name) => {
    const fields = name === "fail" ? [{ name: "error", label: "Error to store", value: "failed by hand" }] : [];
    const run = (answer) => send(`jobs/${name}`, { ids: [job.id], ...answer });
    const done = ({ changed }) => (changed.length ? `Job ${job.id} is ${ACTIONS[name].done}.` : "Its state does not allow that any more.");
    if (name === "retry") await attempt(() => run({}), done);
    else if (name === "reschedule") await attempt(() => run({ run_at: new Date().toISOString() }), done);
    else await ask({ title: `${ACTIONS[name].label}: job ${job.id}?`, fields, act: ACTIONS[name].label, danger: true }, run, done);
    reload();
  };
  const command = `asyncq add ${quoted(job.task)} ${quoted(job.payload ?? "")}${job.queue ? ` --queue ${quoted(job.queue)}` : ""}`;
  // Without TLS a browser has no clipboard for pages, except for those of its own machine.
  const copy = () => (navigator.clipboard ? attempt(() => navigator.clipboard.writeText(command), "The command is copied.") : ask({ title: "Copy as a command", text: html`<pre>${command}</pre>` }));
  return html`<div class="bar">${offered.map((name) => html`<button key=${name} onClick=${() => act(name)}>${ACTIONS[name].label}</button>`)}
    ${job.payload !== null && html`<button onClick=${copy}>Copy as a command</button>`}</div>`;
}

const quoted = (text) => (/^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
