// Jobs by a filter, which is in the address; changes of those that are ticked, or of all that match.

import { html, useEffect, useState } from "../vendor/preact.js";
import { get, send } from "../api.js";
import { firstLine, number, shortened } from "../format.js";
import { Badge, Fault, Link, Table, When, ask, attempt, may, query, useGet, useMe } from "../parts.js";
import { ACTIONS, ALLOWED, RIGHT_OF, STATES } from "../words.js";

const FIELDS = [
  ["task", "Task", "tasks"], ["queue", "Queue", "queues"], ["key", "Job key"], ["flag", "Flag"],
  ["error", "Error contains"], ["has", 'Payload has, as {"user": 7}'],
];

export function Jobs({ search }) {
  const [page, setPage] = useState({ jobs: [], next: null, error: null, isLoading: true });
  const [chosen, setChosen] = useState(new Set());
  const me = useMe();
  const address = query(search);
  const load = async (start) => {
    setPage((old) => ({ ...old, isLoading: true }));
    try {
      const found = await get(`jobs${query({ ...search, start })}`);
      setPage((old) => ({ ...found, jobs: start ? [...old.jobs, ...found.jobs] : found.jobs, error: null, isLoading: false }));
    } catch (error) {
      setPage((old) => ({ ...old, error, isLoading: false }));
    }
  };
  useEffect(() => {
    setChosen(new Set());
    load();
  }, [address]);
  const tick = (id) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const act = async (name) => {
    const ids = [...chosen];
    const question = { title: `${ACTIONS[name].label}: ${number(ids.length)} jobs?`, act: ACTIONS[name].label, danger: name !== "retry" };
    if (!(await ask(question))) return;
    const body = name === "reschedule" ? { ids, run_at: new Date().toISOString() } : { ids };
    const done = await attempt(() => send(`jobs/${name}`, body), ({ changed }) => `${number(changed.length)} of ${number(ids.length)} ${ACTIONS[name].done}.`);
    if (done) {
      setChosen(new Set());
      load();
    }
  };
  const states = new Set(page.jobs.filter(({ id }) => chosen.has(id)).map(({ state }) => state));
  const offered = Object.keys(ACTIONS).filter((name) => may(me, RIGHT_OF[name]) && [...states].some((state) => ALLOWED[state].includes(name)));
  const changes = me.can.length > 0;
  const columns = [
    ...(changes ? [["", (job) => html`<input type="checkbox" aria-label="Job ${job.id}" checked=${chosen.has(job.id)} onChange=${() => tick(job.id)} />`]] : []),
    ["Id", (job) => html`<${Link} to="jobs/${job.id}">${job.id}<//>`, "number"],
    ["Task", (job) => html`<${Link} to="jobs${query({ ...search, task: job.task })}">${job.task}<//>`],
    ["State", (job) => html`<${Badge} state=${job.state} />`],
    ["Attempts", (job) => `${job.attempts} of ${job.max_attempts}`, "number"],
    ["Due", (job) => html`<${When} at=${job.run_at} />`],
    ["Added", (job) => html`<${When} at=${job.created_at} />`],
    ["Queue", (job) => job.queue && html`<${Link} to="jobs${query({ ...search, queue: job.queue })}">${job.queue}<//>`],
    ["Payload", (job) => html`<code>${job.payload === null ? "hidden" : shortened(job.payload)}</code>`, "wide"],
    ["Error", (job) => html`<code>${shortened(firstLine(job.last_error))}</code>`, "wide"],
  ];
  return html`<div class="head"><h1>Jobs</h1>${may(me, "add") && html`<${Add} />`}</div>
    <${Filter} search=${search} />
    <div class="bar">
      ${chosen.size > 0 && html`<span>${number(chosen.size)} ticked</span>
        ${offered.map((name) => html`<button key=${name} onClick=${() => act(name)}>${ACTIONS[name].label}</button>`)}`}
      ${changes && chosen.size === 0 && html`<${All} search=${search} />`}
      <button class="plain" onClick=${() => load()} disabled=${page.isLoading}>Reload</button>
    </div>
    <${Fault} error=${page.error} />
    <${Table} label="Jobs" rows=${page.jobs} columns=${columns} keyOf=${(job) => job.id} none=${page.isLoading ? "Loading …" : "No job matches."} />
    ${page.next !== null && html`<p><button onClick=${() => load(page.next)} disabled=${page.isLoading}>Look further</button>
      <span class="quiet"> A look reads ${number(page.looked)} rows at most.</span></p>`}`;
}

function Filter({ search }) {
  const tasks = useGet("tasks");
  const queues = useGet("queues");
  const go = (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    location.hash = `#/jobs${query(given)}`;
  };
  return html`<form class="filter" onSubmit=${go} key=${query(search)}>
    <label>State <select name="state">
      <option value="">any</option>
      ${STATES.map((state) => html`<option key=${state} selected=${search.state === state}>${state}</option>`)}
    </select></label>
    ${FIELDS.map(([name, label, list], place) => html`<label key=${name}>${label}
      <input name=${name} defaultValue=${search[name] ?? ""} list=${list ? `known-${list}` : null} data-search=${place === 0 ? "" : null} autocomplete="off" /></label>`)}
    <label>Order <select name="order"><option value="">newest first</option><option value="oldest" selected=${search.order === "oldest"}>oldest first</option></select></label>
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
    const answer = await ask({
      title: `${ACTIONS[name === "discard" ? "fail" : name].label}: ${many} jobs?`,
      text: `${states || "None matches"}. Jobs that are added from now on are left alone.`,
      fields: isAll ? [{ name: "word", label: "There is no filter. Type everything to go on.", pattern: "everything", required: true }] : [],
      act: ACTIONS[name === "discard" ? "fail" : name].label,
      danger: true,
    });
    if (!answer) return;
    const body = { action: name, filter, up_to: preview.up_to, total: preview.jobs, word: answer.word ?? "" };
    if (name === "reschedule") body.run_at = new Date().toISOString();
    if (await attempt(() => send("bulk", body), "It has begun.")) location.hash = "#/bulk";
  };
  const offered = ["retry", "cancel", "reschedule", "complete", "discard", "remove"].filter((name) => may(me, RIGHT_OF[name === "discard" ? "fail" : name]));
  return html`<label>All that match <select value="" aria-label="Change all that match" onChange=${(event) => {
    const name = event.target.value;
    event.target.value = "";
    begin(name);
  }}><option value="">…</option>${offered.map((name) => html`<option key=${name} value=${name}>${ACTIONS[name === "discard" ? "fail" : name].label}</option>`)}</select></label>`;
}

function Add() {
  const add = async () => {
    const answer = await ask({
      title: "Add a job",
      fields: [
        { name: "task", label: "Task", required: true },
        { name: "payload", label: "Payload, as JSON", value: "{}" },
        { name: "queue", label: "Queue" },
        { name: "priority", label: "Priority, lower first", type: "number" },
      ],
      act: "Add",
    });
    if (!answer) return;
    const options = {};
    if (answer.queue) options.queue = answer.queue;
    if (answer.priority) options.priority = Number(answer.priority);
    const added = await attempt(() => {
      let payload;
      try {
        payload = JSON.parse(answer.payload || "null");
      } catch (error) {
        throw new Error(`The payload is no JSON: ${error.message}`);
      }
      return send("jobs/add", { task: answer.task, payload, options });
    }, ({ id }) => `Job ${id} is added.`);
    if (added) location.hash = `#/jobs/${added.id}`;
  };
  return html`<button onClick=${add}>Add a job</button>`;
}
