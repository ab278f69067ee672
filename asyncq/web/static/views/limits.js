// Limits, their keys, and what is paused.

import { html, useState } from "../preact.js";
import { send } from "../api.js";
import { number } from "../format.js";
import { Loaded, Table, When, ask, attempt, may, useGet, useMe } from "../parts.js";
import { pauseWords } from "./overview.js";
import { PauseButton } from "../pause.js";

const WHY = { paused: "paused", backed_off: "backs off", rate: "its rate is used up", partition_full: "its limit is reached" };

export function Limits() {
  const limits = useGet("limits", 5000);
  const pauses = useGet("pauses", 5000);
  const [shown, show] = useState(null);
  const reload = () => {
    limits.reload();
    pauses.reload();
  };
  const everything = pauses.value?.pauses.find(({ what }) => what === "everything");
  return html`<div class="head"><h1>Limits</h1>${pauses.value && html`<${PauseButton} target=${{}} pause=${everything} reload=${reload} />`}</div>
    <h2>Paused</h2>
    <${Loaded} state=${pauses}>${({ pauses }) => html`<${Pauses} rows=${pauses} reload=${reload} />`}<//>
    <h2>Limits of tasks and queues</h2>
    <${Loaded} state=${limits}>${({ limits }) => html`<${Table} label="Limits" rows=${limits} keyOf=${({ kind, name }) => kind + name} none="No worker has declared a limit."
      columns=${[
        ["Name", (row) => html`<button class="link" aria-expanded=${shown === row.name} onClick=${() => show(shown === row.name ? null : row.name)}>${row.name}</button>`],
        ["Allows", (row) => row.said, "wide"],
        ["Tasks", (row) => row.tasks.join(", ")],
        ["Key", (row) => row.by.join(", ")],
        ["Running", (row) => number(row.running), "number"],
        ["Waiting", (row) => number(row.waiting), "number"],
        ["Full keys", (row) => number(row.full), "number"],
        ["Set by", (row) => row.set_by && html`${row.set_by}, <${When} at=${row.set_at} />`],
        ["", (row) => html`<${Change} row=${row} reload=${reload} />`],
      ]} />`}<//>
    ${shown && html`<${Keys} key=${shown} name=${shown} pauses=${pauses} reload=${reload} />`}`;
}

function Pauses({ rows, reload }) {
  return html`<${Table} label="Pauses" rows=${rows} keyOf=${(one) => `${one.what} ${one.name} ${one.key}`} none="Nothing is paused."
    columns=${[
      ["What", pauseWords],
      ["Since", (one) => html`<${When} at=${one.paused_at} />`],
      ["By", (one) => one.paused_by],
      ["Why", (one) => one.reason, "wide"],
      ["", (one) => html`<${PauseButton} target=${targetOf(one)} pause=${one} reload=${reload} />`],
    ]} />`;
}

function targetOf({ what, name, key }) {
  if (what === "everything") return {};
  return what === "key" ? { limit: name, key } : { [what]: name };
}

function Change({ row, reload, of = null }) {
  const me = useMe();
  if (!may(me, "control")) return null;
  const change = async () => {
    const question = {
      title: of === null ? `Change the limit ${row.name}` : `Change the key ${of} of ${row.name}`,
      text: "It holds until it is undone; no deployment changes it. An empty field stays as it is.",
      fields: [
        { name: "concurrency", label: "Jobs at once", type: "number" },
        { name: "count", label: "Starts in a time", type: "number" },
        { name: "per", label: "That time, in seconds", type: "number" },
        ...(of === null ? [] : [{ name: "weight", label: "Turns beside other keys (1 is usual)", type: "number" }]),
      ],
      act: "Set",
    };
    const set = ({ concurrency, count, per, weight }) => {
      const body = of === null ? {} : { key: of };
      if (concurrency) body.concurrency = Number(concurrency);
      if (count || per) body.rate = { count: Number(count), per_s: Number(per || 60) };
      if (weight) body.weight = Number(weight);
      return send(`limits/${encodeURIComponent(row.name)}/set`, body);
    };
    await ask(question, set, "It is set.");
    reload();
  };
  const undo = async () => {
    await attempt(() => send(`limits/${encodeURIComponent(row.name)}/unset`, of === null ? {} : { key: of }), "The declared values hold again.");
    reload();
  };
  return html`<button class="small" onClick=${change}>Change</button>
    ${(of !== null || Object.keys(row.overrides).length > 0) && html`<button class="small" onClick=${undo}>Undo</button>`}`;
}

function Keys({ name, pauses, reload }) {
  const state = useGet(`limits/${encodeURIComponent(name)}/partitions`, 5000);
  const paused = (key) => pauses.value?.pauses.find((one) => one.what === "key" && one.name === name && one.key === key);
  const again = () => {
    state.reload();
    reload();
  };
  return html`<h2>Keys of ${name}</h2><${Loaded} state=${state}>${({ partitions }) => html`<${Table} label="Keys" rows=${partitions} keyOf=${({ key }) => key}
    none="No key has jobs or values of its own."
    columns=${[
      ["Key", ({ key }) => key ?? html`<span class="quiet">not known</span>`],
      ["Running", (row) => (row.may === null ? number(row.running) : `${number(row.running)} of ${number(row.may)}`), "number"],
      ["Waiting", (row) => number(row.waiting), "number"],
      ["Why it waits", (row) => WHY[row.why] ?? "", "wide"],
      ["Next start", (row) => html`<${When} at=${row.next_at} />`],
      ["", (row) => row.key !== null && html`<${PauseButton} target=${{ limit: name, key: row.key }} pause=${paused(row.key)} reload=${again} />
        <${Change} row=${{ name, overrides: {} }} of=${row.key} reload=${again} />`],
    ]} />`}<//>`;
}
