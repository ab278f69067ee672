// The parts that all views are made of.

import { createContext, html, useCallback, useContext, useEffect, useRef, useState } from "./preact.js";
import { get } from "./api.js";
import { exact, relative } from "./format.js";

export const Me = createContext({ can: [] });
export const may = (me, right) => me.can.includes(right);
export const useMe = () => useContext(Me);

// Reads an address of the API, again every `everyMs` while the tab is visible.
export function useGet(path, everyMs = 0) {
  const [state, setState] = useState({ value: null, error: null });
  const wanted = useRef(path);
  wanted.current = path;
  const load = useCallback(async () => {
    try {
      const value = await get(path);
      if (wanted.current === path) setState({ value, error: null });
    } catch (error) {
      if (wanted.current === path) setState((old) => ({ value: old.value, error }));
    }
  }, [path]);
  useEffect(() => {
    load();
    if (!everyMs) return undefined;
    const timer = setInterval(() => document.hidden || load(), everyMs);
    return () => clearInterval(timer);
  }, [load, everyMs]);
  return { ...state, reload: load };
}

export function Fault({ error }) {
  return html`<div>${error && html`<p class="fault" role="alert">${error.message}</p>`}</div>`;
}

// One element around all that it shows: else what is loaded later would be put behind its neighbours.
export function Loaded({ state, children }) {
  return html`<div><${Fault} error=${state.error} />
    ${state.value !== null ? children(state.value) : !state.error && html`<p class="quiet">Loading …</p>`}</div>`;
}

export function When({ at, none = "" }) {
  return at ? html`<time datetime=${at} title=${exact(at)}>${relative(at)}</time>` : none;
}

export function Badge({ state }) {
  return html`<span class="badge ${state}">${state}</span>`;
}

export function Link({ to, children, ...rest }) {
  return html`<a href="#/${to}" ...${rest}>${children}</a>`;
}

export const query = (values) => {
  const given = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `?${new URLSearchParams(given)}` : "";
};

// A table that scrolls by itself; on a narrow page each row is a card, whose texts have the names of their columns.
export function Table({ label, columns, rows, keyOf, none = "Nothing here." }) {
  if (!rows.length) return html`<p class="quiet">${none}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table>
      <thead><tr>${columns.map(([name, , kind]) => html`<th scope="col" class=${kind ?? ""} key=${name}>${name}</th>`)}</tr></thead>
      <tbody>
        ${rows.map((row) => html`<tr key=${keyOf(row)}>
          ${columns.map(([name, cell, kind]) => html`<td class=${kind ?? ""} data-label=${name} key=${name}>${cell(row)}</td>`)}
        </tr>`)}
      </tbody>
    </table>
  </div>`;
}

// One dialog for the whole page. `ask` opens it, runs an action with the texts that are given, and says how it ended;
// it resolves to the answer of the action, or null. While the action fails the dialog stays, with all that was typed.
let openDialog = null;

export async function ask(question, run = null, done = null) {
  const answer = await new Promise((resolve) => openDialog({ ...question, run, resolve }));
  if (answer !== null && done) say(typeof done === "function" ? done(answer) : done);
  return answer;
}

export function Asking() {
  const [question, setQuestion] = useState(null);
  const [error, setError] = useState(null);
  const dialog = useRef(null);
  openDialog = setQuestion;
  useEffect(() => {
    if (question) dialog.current.showModal();
  }, [question]);
  if (!question) return null;
  const close = (answer) => {
    dialog.current.close(); // It gives the focus back.
    setError(null);
    setQuestion(null);
    question.resolve(answer);
  };
  const submit = async (event) => {
    event.preventDefault();
    try {
      close(await question.run(Object.fromEntries(new FormData(event.target))));
    } catch (failed) {
      setError(failed);
    }
  };
  return html`<dialog ref=${dialog} onCancel=${() => close(null)} aria-labelledby="asking">
    <form onSubmit=${submit}>
      <h2 id="asking">${question.title}</h2>
      ${question.text && html`<div>${question.text}</div>`}
      ${(question.fields ?? []).map((field) => html`<label key=${field.name}>${field.label}
        <input name=${field.name} type=${field.type ?? "text"} defaultValue=${field.value ?? ""} required=${field.required ?? false}
          pattern=${field.pattern ?? ".*"} placeholder=${field.hint ?? ""} step="any" autocomplete="off" /></label>`)}
      <${Fault} error=${error} />
      <div class="buttons">
        <button type="button" onClick=${() => close(null)}>Close</button>
        ${question.act && html`<button class=${question.danger ? "danger" : "main"}>${question.act}</button>`}
      </div>
    </form>
  </dialog>`;
}

// Short messages, read out by screen readers.
let addToast = null;
export const say = (text, fault = false) => addToast({ text, fault, id: Math.random() });

export function Toasts() {
  const [all, setAll] = useState([]);
  addToast = (toast) => {
    setAll((old) => [...old, toast]);
    setTimeout(() => setAll((old) => old.filter(({ id }) => id !== toast.id)), toast.fault ? 9000 : 4000);
  };
  return html`<div class="toasts" role="status">
    ${all.map(({ id, text, fault }) => html`<p key=${id} class=${fault ? "fault" : ""}>${text}</p>`)}
  </div>`;
}

// Runs an action, and says how it ended.
export async function attempt(act, done) {
  try {
    const answer = await act();
    say(typeof done === "function" ? done(answer) : done);
    return answer;
  } catch (error) {
    say(error.message, true);
    return null;
  }
}
