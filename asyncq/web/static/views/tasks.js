// Tasks with what waits, runs and has failed.

import { html } from "../preact.js";
import { number } from "../format.js";
import { Link, Loaded, Table, query, useGet } from "../parts.js";
import { Task } from "./task.js";

export function Tasks({ rest }) {
  if (rest.length) return html`<${Task} name=${rest.join("/")} />`;
  const state = useGet("tasks", 5000);
  return html`<h1>Tasks</h1><${Loaded} state=${state}>${({ tasks }) => html`<${Table} label="Tasks" rows=${tasks} keyOf=${({ task }) => task}
    none="No task has jobs, and no live worker knows one."
    columns=${[
      ["Task", ({ task }) => html`<${Link} to="tasks/${encodeURIComponent(task)}">${task}<//>`],
      ["Due", (row) => counted(row, row.due, "available"), "number"],
      ["Waiting", (row) => counted(row, row.waiting, "scheduled"), "number"],
      ["Running", (row) => counted(row, row.running, "active"), "number"],
      ["Failed", (row) => counted(row, row.failed, "discarded"), "number"],
      ["Workers", (row) => (row.workers ? number(row.workers) : html`<span class="bad">none</span>`), "number"],
    ]} />`}<//>`;
}

function counted(row, value, state) {
  return html`<${Link} to="jobs${query({ task: row.task, state })}">${row.is_exact ? "" : "about "}${number(value)}<//>`;
}
