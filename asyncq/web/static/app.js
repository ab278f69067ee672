// The page: a bar of links, and the view that the address names behind its #.

import { html, render, useEffect, useState } from "./vendor/preact.js";
import { get } from "./api.js";

function Overview() {
  const [seen, setSeen] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    get("overview").then(setSeen, setError);
  }, []);
  if (error) return html`<p role="alert">${error.message}</p>`;
  if (!seen) return html`<p>Loading</p>`;
  const states = ["available", "active", "scheduled", "retryable", "discarded"];
  return html`<main>
    <h1>Overview</h1>
    <dl class="tiles">
      ${states.map((state) => html`<div key=${state}><dt>${state}</dt><dd>${seen.counts[state]}</dd></div>`)}
    </dl>
  </main>`;
}

render(html`<${Overview} />`, document.getElementById("app"));
