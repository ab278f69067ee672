// The overview as it changes: a stream of the server, or questions every ten seconds after three failures.

import { useEffect, useState } from "./preact.js";
import { get } from "./api.js";

const FAILURES = 3;
const POLL_MS = 10000;

export function useLive() {
  const [state, setState] = useState({ value: null, error: null });
  useEffect(() => {
    let source = null;
    let timer = null;
    let failures = 0;
    const show = (value) => setState({ value, error: null });
    const fail = (error) => setState((old) => ({ value: old.value, error }));
    const poll = () => get("overview").then(show, fail);
    const close = () => {
      source?.close();
      clearInterval(timer);
      source = timer = null;
    };
    const open = () => {
      close();
      if (document.hidden) return;
      if (failures >= FAILURES) {
        poll();
        timer = setInterval(poll, POLL_MS);
        return;
      }
      source = new EventSource("api/events");
      source.onmessage = (message) => {
        failures = 0;
        show(JSON.parse(message.data));
      };
      source.onerror = () => {
        failures += 1;
        fail(new Error("The connection to the server is lost; trying again."));
        if (failures >= FAILURES || source.readyState === EventSource.CLOSED) {
          close();
          timer = setTimeout(open, failures >= FAILURES ? 0 : 1000);
        }
      };
    };
    open();
    document.addEventListener("visibilitychange", open);
    return () => {
      document.removeEventListener("visibilitychange", open);
      close();
    };
  }, []);
  return state;
}
