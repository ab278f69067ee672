// The fullest queues.

import { html } from "../preact.js";
import { number } from "../format.js";
import { Link, Loaded, Table, query, useGet } from "../parts.js";
import { PauseButton } from "../pause.js";

export function Queues() {
  const state = useGet("queues", 5000);
  const pauses = useGet("pauses", 5000);
  const paused = (name) => pauses.value?.pauses.find((one) => one.what === "queue" && one.name === name);
  const count = (row, value, of) => html`<${Link} to="jobs${query({ queue: row.queue, state: of })}">${row.is_exact ? "" : "about "}${number(value)}<//>`;
  return html`<h1>Queues</h1><${Loaded} state=${state}>${({ queues }) => html`<${Table} label="Queues" rows=${queues} keyOf=${({ queue }) => queue}
    none="No job has a queue."
    columns=${[
      ["Queue", ({ queue }) => html`<${Link} to="jobs${query({ queue })}">${queue}<//>`],
      ["Due", (row) => count(row, row.due, "available"), "number"],
      ["Waiting", (row) => count(row, row.waiting, "scheduled"), "number"],
      ["Running", (row) => count(row, row.running, "active"), "number"],
      ["Failed", (row) => count(row, row.failed, "discarded"), "number"],
      ["", (row) => html`<${PauseButton} target=${{ queue: row.queue }} pause=${paused(row.queue)} reload=${pauses.reload} />`],
    ]} />`}<//>`;
}
