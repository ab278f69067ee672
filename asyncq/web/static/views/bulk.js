// Changes of all jobs that match a filter: the operations of this process.

import { html } from "../preact.js";
import { send } from "../api.js";
import { number } from "../format.js";
import { Loaded, Table, When, attempt, useGet } from "../parts.js";
import { ACTIONS } from "../words.js";

export function Bulk() {
  const state = useGet("bulk", 1000);
  const stop = async (id) => {
    await attempt(() => send(`bulk/${id}`, {}, "DELETE"), "It stops after the thousand that it is changing.");
    state.reload();
  };
  return html`<h1>Bulk operations</h1>
    <p class="quiet">A search on the page of jobs begins one. It ends with the process of this dashboard; it can be begun again.</p>
    <${Loaded} state=${state}>${({ operations }) => html`<${Table} label="Bulk operations" rows=${operations} keyOf=${({ id }) => id} none="None since this process began."
    columns=${[
      ["Action", ({ action }) => ACTIONS[action === "discard" ? "fail" : action].label],
      ["Jobs", ({ filter }) => html`<code>${Object.keys(filter).length ? JSON.stringify(filter) : "all"}</code>`, "wide"],
      ["By", ({ by }) => by],
      ["Began", ({ began_at }) => html`<${When} at=${began_at} />`],
      ["Done", ({ done, total }) => `${number(done)} of ${total > 10000 ? "more than 10,000" : number(total)}`, "number"],
      ["State", ({ state }) => html`<span class="badge ${state}">${state}</span>`],
      ["Errors", ({ errors }) => errors.at(-1), "wide"],
      ["", ({ id, state }) => state === "running" && html`<button class="small" onClick=${() => stop(id)}>Stop</button>`],
    ]} />`}<//>`;
}
