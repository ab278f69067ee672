// Workers, and the jobs that they run.

import { html } from "../preact.js";
import { send } from "../api.js";
import { duration, number } from "../format.js";
import { Link, Loaded, Table, When, ask, may, useGet, useMe } from "../parts.js";

export function Workers() {
  const workers = useGet("workers", 2000);
  const running = useGet("running", 2000);
  const me = useMe();
  const unlock = async ({ id }) => {
    const text = "Its jobs are returned, and each counts an attempt. Do it only if this worker is certainly gone.";
    await ask({ title: `Unlock worker ${id}?`, text, act: "Unlock", danger: true }, () => send(`workers/${id}/unlock`), ({ changed }) => `${number(changed.length)} jobs are returned.`);
    workers.reload();
  };
  const cancel = async (id) => {
    await ask({ title: `Cancel job ${id}?`, act: "Cancel the job", danger: true }, () => send("jobs/cancel", { ids: [id] }), "It is cancelled.");
    running.reload();
  };
  return html`<h1>Workers</h1><${Loaded} state=${workers}>${({ workers }) => html`<${Table} label="Workers" rows=${workers} keyOf=${({ id }) => id} none="No worker is alive."
    columns=${[
      ["Id", ({ id }) => id, "number"],
      ["Host", ({ host, pid }) => `${host ?? "unknown"}${pid ? `, process ${pid}` : ""}`],
      ["State", ({ state }) => html`<span class="badge ${state}">${state}</span>`],
      ["Busy", (row) => (row.concurrency === null ? number(row.running) : `${number(row.running)} of ${number(row.concurrency)}`), "number"],
      ["Stuck", ({ stuck }) => stuck.map((id) => html`<${Link} key=${id} to="jobs/${id}">${id} <//>`)],
      ["Seen", (row) => (row.silent_s === null ? "" : `${duration(row.silent_s)} ago`)],
      ["Started", (row) => html`<${When} at=${row.started_at} />`],
      ["Tasks", ({ tasks }) => tasks.join(", "), "wide"],
      ["", (row) => row.state !== "live" && may(me, "unlock") && html`<button class="small" onClick=${() => unlock(row)}>Unlock</button>`],
    ]} />`}<//>
    <h2>Running jobs</h2><${Loaded} state=${running}>${({ running }) => html`<${Table} label="Running jobs" rows=${running} keyOf=${({ id }) => id} none="No job runs."
    columns=${[
      ["Id", ({ id }) => html`<${Link} to="jobs/${id}">${id}<//>`, "number"],
      ["Task", ({ task }) => task],
      ["For", ({ running_s }) => duration(running_s), "number"],
      ["Attempt", ({ attempt, max_attempts }) => `${attempt} of ${max_attempts}`, "number"],
      ["Queue", ({ queue }) => queue],
      ["Worker", ({ worker_id, host }) => `${worker_id}${host ? ` on ${host}` : ""}`],
      ["", (row) => !row.is_cancelled && may(me, "cancel") && html`<button class="small" onClick=${() => cancel(row.id)}>Cancel</button>`],
    ]} />`}<//>`;
}
