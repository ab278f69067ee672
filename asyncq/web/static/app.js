// The page: a bar of links, the view that the address names behind its #, keys, dialogs and messages.

import { html, render, useEffect, useState } from "./preact.js";
import { Asking, Fault, Me, Toasts, ask, useGet } from "./parts.js";
import { HELP } from "./words.js";
import { Bulk } from "./views/bulk.js";
import { Cron } from "./views/cron.js";
import { Job } from "./views/job.js";
import { Jobs } from "./views/jobs.js";
import { Limits } from "./views/limits.js";
import { Overview } from "./views/overview.js";
import { Queues } from "./views/queues.js";
import { Tasks } from "./views/tasks.js";
import { Workers } from "./views/workers.js";

const VIEWS = [
  ["", "Overview", Overview, "o"], ["jobs", "Jobs", Jobs, "j"], ["tasks", "Tasks", Tasks, "t"],
  ["queues", "Queues", Queues, "q"], ["limits", "Limits", Limits, "l"], ["cron", "Cron", Cron, "c"],
  ["workers", "Workers", Workers, "w"], ["bulk", "Bulk", Bulk, "b"],
];

// Addresses are typed, too: a text that is not encoded means itself.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function place() {
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [name, ...rest] = path.split("/");
  return { name, rest: rest.map(decoded), search: Object.fromEntries(new URLSearchParams(search ?? "")) };
}

function help() {
  ask({ title: "Keys", text: html`<ul class="keys">${HELP.map(([key, what]) => html`<li key=${key}><kbd>${key}</kbd> ${what}</li>`)}</ul>` });
}

function onKey(event) {
  if (event.target.closest("input, textarea, select, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  const view = VIEWS.find(([, , , key]) => key === event.key);
  if (view) location.hash = `#/${view[0]}`;
  else if (event.key === "/") {
    event.preventDefault();
    const search = () => document.querySelector("[data-search]")?.focus();
    if (document.querySelector("[data-search]")) search();
    else {
      addEventListener("hashchange", () => setTimeout(search), { once: true });
      location.hash = "#/jobs";
    }
  } else if (event.key === "?") help();
}

function Page() {
  const [at, setAt] = useState(place);
  const me = useGet("me");
  useEffect(() => {
    const move = () => {
      setAt(place());
      scrollTo(0, 0);
    };
    addEventListener("hashchange", move);
    addEventListener("keydown", onKey);
    return () => {
      removeEventListener("hashchange", move);
      removeEventListener("keydown", onKey);
    };
  }, []);
  const [, title, View] = VIEWS.find(([name]) => name === at.name) ?? ["", "Not found", null];
  const isJob = at.name === "jobs" && at.rest.length > 0;
  useEffect(() => {
    document.title = `${isJob ? `Job ${at.rest[0]}` : at.rest.join("/") || title} · asyncq`;
  }, [title, isJob, at.rest.join("/")]);
  if (me.value === null) return me.error ? html`<main><${Fault} error=${me.error} /></main>` : null;
  return html`<${Me.Provider} value=${me.value}>
    <header>
      <a class="brand" href="#/"><img src="static/icon.svg" alt="" width="22" height="22" /> asyncq</a>
      <nav aria-label="Pages">
        ${VIEWS.map(([name, word]) => html`<a key=${name} href="#/${name}" aria-current=${name === at.name ? "page" : null}>${word}</a>`)}
      </nav>
      <button class="plain" onClick=${help} aria-label="Keys">?</button>
    </header>
    <main>
      ${me.value.is_standby && html`<p class="note">This server is a standby: nothing can be changed here.</p>`}
      ${isJob ? html`<${Job} key=${at.rest[0]} id=${at.rest[0]} />`
        : View ? html`<${View} key=${title} search=${at.search} rest=${at.rest} />` : html`<h1>There is no such page</h1>`}
    </main>
    <${Asking} /><${Toasts} />
  <//>`;
}

render(html`<${Page} />`, document.getElementById("app"));
