// Recurring items.

import { html } from "../preact.js";
import { send } from "../api.js";
import { Loaded, Table, When, ask, attempt, may, useGet, useMe } from "../parts.js";

export function Cron() {
  const state = useGet("cron", 5000);
  return html`<h1>Recurring jobs</h1><${Loaded} state=${state}>${({ items }) => html`<${Table} label="Recurring items" rows=${items} keyOf=${({ identifier }) => identifier}
    none="No worker has a crontab, and no item is stored."
    columns=${[
      ["Item", (item) => html`${item.identifier}${item.problem && html`<div class="bad">${item.problem}</div>`}`, "wide"],
      ["Task", (item) => item.task],
      ["When", (item) => html`<code>${item.expression}</code> <span class="quiet">${item.tz === "UTC" ? "" : item.tz}</span>`],
      ["Source", (item) => item.source],
      ["Last", (item) => html`<${When} at=${item.last_run} none="never" />`],
      ["Next", (item) => (item.paused_at ? html`<span class="bad">paused</span>` : html`<${When} at=${item.next_run} />`)],
      ["Overlap", (item) => item.overlap],
      ["", (item) => html`<${Acts} item=${item} reload=${state.reload} />`],
    ]} />`}<//>`;
}

function Acts({ item, reload }) {
  const me = useMe();
  if (!may(me, "cron")) return null;
  const path = `cron/${encodeURIComponent(item.identifier)}`;
  const act = async (name, done) => {
    await attempt(() => send(`${path}/${name}`), done);
    reload();
  };
  const change = async () => {
    const fields = [{ name: "match", label: "Expression", value: item.expression, required: true }, { name: "tz", label: "Time zone", value: item.tz, required: true }];
    await ask({ title: `Change ${item.identifier}`, fields, act: "Change" }, (answer) => send(path, answer, "PUT"), "It is changed.");
    reload();
  };
  const remove = async () => {
    await ask({ title: `Remove ${item.identifier}?`, text: "Its jobs stay.", act: "Remove", danger: true }, () => send(`${path}/remove`), "It is removed.");
    reload();
  };
  return html`<button class="small" onClick=${() => act("run", ({ id }) => `Job ${id} is added.`)}>Run now</button>
    ${item.paused_at ? html`<button class="small" onClick=${() => act("resume", "It is resumed.")}>Resume</button>`
      : html`<button class="small" onClick=${() => act("pause", "It is paused.")}>Pause</button>`}
    ${item.source === "stored" && html`<button class="small" onClick=${change}>Change</button><button class="small" onClick=${remove}>Remove</button>`}`;
}
