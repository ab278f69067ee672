// Numbers, times and JSON for the eye, in the words and the zone of the browser.

const NUMBER = new Intl.NumberFormat();
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const TIME = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const RELATIVE = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

export const number = (value) => (value === null || value === undefined ? "" : NUMBER.format(value));
export const exact = (text) => EXACT.format(new Date(text));

// A mark of an axis in seconds since 1970, by the distance of two marks; the time of day for most.
export const moment = (at, apart) => (at === null ? "" : (apart < 86400 ? TIME : DAY).format(new Date(at * 1000)));

export function relative(text, now = Date.now()) {
  const seconds = (Date.parse(text) - now) / 1000;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? UNITS.at(-1);
  return RELATIVE.format(Math.round(seconds / size), unit);
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 0.9995) return `${number(Math.round(seconds * 1000))} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// Indents JSON without reading it: numbers of any length keep each digit.
export function pretty(text) {
  let shown = "";
  let depth = 0;
  let quoted = false;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (quoted) {
      shown += sign;
      if (sign === "\\") shown += text[(at += 1)];
      else if (sign === '"') quoted = false;
    } else if (sign === '"') {
      quoted = true;
      shown += sign;
    } else if (sign === "{" || sign === "[") {
      const empty = /^\s*[}\]]/.exec(text.slice(at + 1));
      if (empty) {
        shown += sign + empty[0].trim();
        at += empty[0].length;
      } else {
        depth += 1;
        shown += sign + line();
      }
    } else if (sign === "}" || sign === "]") {
      depth -= 1;
      shown += line() + sign;
    } else if (sign === ",") shown += sign + line();
    else if (sign === ":") shown += ": ";
    else if (!/\s/.test(sign)) shown += sign;
  }
  return shown;
}

export const firstLine = (text) => (text ?? "").split("\n", 1)[0];
export const shortened = (text, most = 80) => (text.length > most ? `${text.slice(0, most)}…` : text);
