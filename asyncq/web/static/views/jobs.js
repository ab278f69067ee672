// Jobs by a filter, which is in the address; changes of those that are ticked, or of all that match. Jobs that have
// ended are another list of the server, with a filter of its own.

import { html, useEffect, useState } from "../preact.js";
import { get, send } from "../api.js";
import { duration, firstLine, number, shortened } from "../format.js";
import { Badge, Fault, Link, Table, When, ask, attempt, may, query, useGet, useMe } from "../parts.js";
import { ACTIONS, ENDED, RIGHT_OF, STATES, allowed, dueOf } from "../words.js";

const FIELDS = [
  ["task", "Task", "tasks"], ["queue", "Queue", "queues"], ["key", "Job key"], ["flag", "Flag"],
  ["error", "Error contains"], ["has", "Payload has", null, '{"user": 7}'],
];

// Another filter is another list: nothing of the one before stays, also not an answer that comes late.
export function Jobs({ search }) {
  return html`<${List} key=${query(search)} search=${search} />`;
}

function List({ search }) {
  const [page, setPage] = useState({ jobs: [], next: null, error: null, isLoading: true });
  const [chosen, setChosen] = useState(new Set());
  const me = useMe();
  const hasEnded = search.state in ENDED;
  const load = async (start) => {
    setPage((old) => ({ ...old, isLoading: true }));
    try {
      const { state, task } = search;
      const found = await get(hasEnded ? `history${query({ state: ENDED[state], task, start })}` : `jobs${query({ ...search, start })}`);
      setPage((old) => ({ ...found, jobs: start ? [...old.jobs, ...found.jobs] : found.jobs, error: null, isLoading: false }));
    } catch (error) {
      setPage((old) => ({ ...old, error, isLoading: false }));
    }
  };
  useEffect(() => {
    load();
  }, []);
  const tick = (id) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const act = async (name) => {
    const ids = [...chosen];
    const question = { title: `${ACTIONS[name].label}: ${number(ids.length)} jobs?`, act: ACTIONS[name].label, danger: name !== "retry" };
    const body = name === "reschedule" ? { ids, run_at: new Date().toISOString() } : { ids };
    if (await ask(question, () => send(`jobs/${name}`, body), ({ changed }) => `${number(changed.length)} of ${number(ids.length)} ${ACTIONS[name].done}.`)) {
      setChosen(new Set());
      load();
    }
  };
  const possible = new Set(page.jobs.filter(({ id }) => chosen.has(id)).flatMap(allowed));
  const offered = Object.keys(ACTIONS).filter((name) => may(me, RIGHT_OF[name]) && possible.has(name));
  const changes = me.can.length > 0;
  const columns = [
    ...(changes ? [["", (job) => html`<input type="checkbox" aria-label="Job ${job.id}" checked=${chosen.has(job.id)} onChange=${() => tick(job.id)} />`]] : []),
    ["Id", (job) => html`<${Link} to="jobs/${job.id}">${job.id}<//>`, "number"],
    ["Task", (job) => html`<${Link} to="jobs${query({ ...search, task: job.task })}">${job.task}<//>`, "name"],
    ["State", (job) => html`<${Badge} state=${job.state} />`],
    ["Attempts", (job) => `${job.attempts} of ${job.max_attempts}`, "number"],
    ...(hasEnded ? TIMES : [
      ["Due", (job) => html`<${When} at=${dueOf(job)} />`],
      ["Added", (job) => html`<${When} at=${job.created_at} />`],
    ]),
    ["Queue", (job) => job.queue && html`<${Link} to="jobs${query(hasEnded ? { queue: job.queue } : { ...search, queue: job.queue })}">${job.queue}<//>`, "name"],
    ...(hasEnded ? [] : [["Payload", (job) => html`<code>${job.payload === null ? "hidden" : shortened(job.payload)}</code>`, "wide"]]),
    ["Error", (job) => errorOf(job) && html`<code>${shortened(firstLine(errorOf(job)))}</code>`, "wide"],
  ];
  const none = page.isLoading ? "Loading …" : hasEnded ? "No kept job matches. Jobs are kept for the time that their task or their add says." : "No job matches.";
  return html`<div class="head"><h1>Jobs</h1>${may(me, "add") && html`<${Add} />`}</div>
    <${Filter} search=${search} />
    <div class="bar">
      ${chosen.size > 0 && html`<span>${number(chosen.size)} ticked</span>
        ${offered.map((name) => html`<button key=${name} onClick=${() => act(name)}>${ACTIONS[name].label}</button>`)}`}
      ${changes && !hasEnded && chosen.size === 0 && html`<${All} search=${search} />`}
      <button onClick=${() => load()} disabled=${page.isLoading}>Reload</button>
    </div>
    <${Fault} error=${page.error} />
    ${!(page.error && page.jobs.length === 0) && html`<${Table} label="Jobs" rows=${page.jobs} columns=${columns} keyOf=${(job) => job.id} none=${none} />`}
    ${page.next !== null && html`<p><button onClick=${() => load(page.next)} disabled=${page.isLoading}>Look further</button>
      ${!hasEnded && html`<span class="quiet"> A look reads ${number(page.looked)} rows at most.</span>`}</p>`}`;
}

const errorOf = (job) => job.last_error ?? job.error;

const seconds = (from, to) => from && duration((Date.parse(to) - Date.parse(from)) / 1000);

// The times of a job that has ended.
const TIMES = [
  ["Ended", (job) => html`<${When} at=${job.ended_at} />`],
  ["Took", (job) => seconds(job.started_at, job.ended_at), "number"],
  ["Kept until", (job) => html`<${When} at=${job.keep_until} />`],
];

function Filter({ search }) {
  const tasks = useGet("tasks");
  const queues = useGet("queues");
  const [state, setState] = useState(search.state ?? "");
  const [order, setOrder] = useState(search.order ?? "");
  const fields = state in ENDED ? FIELDS.slice(0, 1) : FIELDS;
  const go = (event) => {
    event.preventDefault();
    location.hash = `#/jobs${query(Object.fromEntries(new FormData(event.target)))}`;
  };
  return html`<form class="filter" onSubmit=${go}>
    <label>State <select name="state" value=${state} onChange=${(event) => setState(event.target.value)}>
      <option value="">any</option>
      ${STATES.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      <optgroup label="kept after its end">
        ${Object.keys(ENDED).map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      </optgroup>
    </select></label>
    ${fields.map(([name, label, list, hint], place) => html`<label key=${name}>${label}
      <input name=${name} defaultValue=${search[name] ?? ""} list=${list ? `known-${list}` : null} data-search=${place === 0 ? "" : null} placeholder=${hint ?? ""} autocomplete="off" /></label>`)}
    ${state in ENDED ? null : html`<label>Order <select name="order" value=${order} onChange=${(event) => setOrder(event.target.value)}>
      <option value="">newest first</option><option value="oldest">oldest first</option></select></label>`}
    <div class="buttons"><button class="main">Search</button><a class="button" href="#/jobs">Clear</a></div>
    <datalist id="known-tasks">${(tasks.value?.tasks ?? []).map(({ task }) => html`<option key=${task} value=${task} />`)}</datalist>
    <datalist id="known-queues">${(queues.value?.queues ?? []).map(({ queue }) => html`<option key=${queue} value=${queue} />`)}</datalist>
  </form>`;
}

// Changes all that match: a preview, a question, then an operation of the server.
function All({ search }) {
  const me = useMe();
  const { order, ...filter } = search;
  const begin = async (name) => {
    const preview = await attempt(() => send("bulk/preview", { filter }), ({ jobs }) => `${jobs > 10000 ? "More than 10,000" : number(jobs)} jobs match.`);
    if (!preview) return;
    const isAll = Object.keys(filter).length === 0;
    const many = preview.jobs > 10000 ? "more than 10,000" : number(preview.jobs);
    const states = Object.entries(preview.states).map(([state, count]) => `${number(count)} ${state}`).join(", ");
    const question = {
      title: `${ACTIONS[name === "discard" ? "fail" : name].label}: ${many} jobs?`,
      text: `${states || "None matches"}. Jobs that are added from now on, and those whose state does not allow it, are left alone.`,
      fields: isAll ? [{ name: "word", label: "There is no filter. Type everything to go on.", pattern: "everything", required: true }] : [],
      act: ACTIONS[name === "discard" ? "fail" : name].label,
      danger: true,
    };
    const body = { action: name, filter, up_to: preview.up_to, total: preview.jobs };
    if (name === "reschedule") body.run_at = new Date().toISOString();
    if (await ask(question, ({ word }) => send("bulk", { ...body, word: word ?? "" }), "It has begun.")) location.hash = "#/bulk";
  };
  const offered = ["retry", "cancel", "reschedule", "complete", "discard", "remove"].filter((name) => may(me, RIGHT_OF[name === "discard" ? "fail" : name]));
  return html`<label>All that match <select value="" aria-label="Change all that match" onChange=${(event) => {
    const name = event.target.value;
    event.target.value = "";
    begin(name);
  }}><option value="">…</option>${offered.map((name) => html`<option key=${name} value=${name}>${ACTIONS[name === "discard" ? "fail" : name].label}</option>`)}</select></label>`;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`The payload is no JSON: ${error.message}`);
  }
}

function Add() {
  const add = async () => {
    const question = {
      title: "Add a job",
      fields: [
        { name: "task", label: "Task", required: true },
        { name: "payload", label: "Payload, as JSON", value: "{}" },
        { name: "queue", label: "Queue" },
        { name: "priority", label: "Priority, lower first", type: "number" },
      ],
      act: "Add",
    };
    const run = ({ task, payload, queue, priority }) => {
      const options = {};
      if (queue) options.queue = queue;
      if (priority) options.priority = Number(priority);
      return send("jobs/add", { task, payload: parsed(payload || "null"), options });
    };
    const added = await ask(question, run, ({ id }) => `Job ${id} is added.`);
    if (added) location.hash = `#/jobs/${added.id}`;
  };
  return html`<button onClick=${add}>Add a job</button>`;
}
