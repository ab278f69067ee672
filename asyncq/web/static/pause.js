// Pauses and resumes.

import { html } from "./preact.js";
import { send } from "./api.js";
import { ask, attempt, may, useMe } from "./parts.js";

// A button that pauses or resumes one thing.
export function PauseButton({ target, pause, reload }) {
  const me = useMe();
  if (!may(me, "control")) return null;
  const name = Object.values(target).join(", ") || "everything";
  const act = async () => {
    if (pause) {
      await attempt(() => send("resume", target), `${name} is resumed.`);
    } else {
      const question = { title: `Pause ${name}?`, text: "No job of it starts until it is resumed; running jobs run on.", fields: [{ name: "reason", label: "Why" }], act: "Pause", danger: true };
      await ask(question, ({ reason }) => send("pause", { ...target, reason: reason || null }), `${name} is paused.`);
    }
    reload();
  };
  return html`<button class="small" onClick=${act}>${pause ? "Resume" : "Pause"}${Object.keys(target).length ? "" : " everything"}</button>`;
}
