// Charts by uPlot, which the page has loaded as a script of its own; and a histogram of plain elements.

import { html, useEffect, useRef, useState } from "./preact.js";
import { duration, moment, number } from "./format.js";

const COLOURS = ["--good", "--warn", "--bad", "--main"];
const HEIGHT = 160;
const DARK = window.matchMedia("(prefers-color-scheme: dark)");

const isAlone = (values, nth) => values[nth] !== null && (values[nth - 1] ?? null) === null && (values[nth + 1] ?? null) === null;

// The length of a step, as a word behind "per".
export function stepOf(at) {
  const minutes = Math.round((at[1] - at[0]) / 60);
  if (minutes === 1) return "minute";
  return minutes < 60 ? `${minutes} min` : `${minutes / 60} h`;
}

function useDark() {
  const [isDark, setDark] = useState(DARK.matches);
  useEffect(() => {
    const changed = () => setDark(DARK.matches);
    DARK.addEventListener("change", changed);
    return () => DARK.removeEventListener("change", changed);
  }, []);
  return isDark;
}

// One chart: `at` are seconds since 1970, `lines` are names with a value for each of them, null where there is none.
// Screen readers get the sums of counts (`isSum`), else the last values.
export function Chart({ title, at, lines, unit = "", isSum = false }) {
  const place = useRef(null);
  const chart = useRef(null);
  const data = [at, ...lines.map(([, values]) => values)];
  const text = unit === "s" ? duration : number;
  const isDark = useDark();
  // It is made anew for other colours: it reads them once.
  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    // The legend has the values below the pointer, else the last ones.
    const showLast = (drawn) => drawn.cursor.idx === null && drawn.setLegend({ idx: Math.max(...drawn.data.slice(1).map((values) => values.findLastIndex((value) => value !== null))) });
    chart.current = new window.uPlot({
      width: Math.max(place.current.clientWidth, 100), height: HEIGHT, padding: [null, 24, null, null], cursor: { y: false }, legend: { live: true },
      hooks: { ready: [showLast], setCursor: [showLast], setData: [showLast] },
      scales: { y: { range: (_, least, most) => [0, Math.max(most ?? 0, unit === "s" ? 0.01 : 1)] } },
      axes: [{ ...axis, size: 32, space: 70, values: (_, marks) => marks.map((mark) => moment(mark, marks[1] - marks[0])) }, { ...axis, size: 58, values: (_, marks) => marks.map((mark) => text(mark)) }],
      series: [
        { label: "at", value: (_, value) => (value ? moment(value, 0) : "") },
        ...lines.map(([name], nth) => ({ label: name, stroke: colour(COLOURS[nth]), width: 1.5, points: { show: true, size: 5, filter: (drawn, line) => drawn.data[line].flatMap((_, place) => (isAlone(drawn.data[line], place) ? [place] : [])) }, value: (_, value) => (value === null ? "" : text(value)) })),
      ],
    }, data, place.current);
    const resized = new ResizeObserver(() => chart.current.setSize({ width: Math.max(place.current.clientWidth, 100), height: HEIGHT }));
    resized.observe(place.current);
    return () => {
      resized.disconnect();
      chart.current.destroy();
    };
  }, [isDark]);
  useEffect(() => chart.current.setData(data), [JSON.stringify(data)]);
  const one = (values) => (isSum ? values.reduce((sum, value) => sum + value, 0) : values.findLast((value) => value !== null));
  const said = lines.map(([name, values]) => `${name} ${text(one(values)) || "unknown"}`).join(", ");
  return html`<figure class="chart"><figcaption>${title}</figcaption><div ref=${place} role="img" aria-label="${title}; ${isSum ? "in all" : "at the end"}: ${said}"></div></figure>`;
}

// Counts in buckets of 1 ms, 2 ms, 4 ms and so on.
export function Histogram({ title, counts }) {
  const most = Math.max(1, ...counts);
  const first = counts.findIndex((count) => count > 0);
  const last = counts.findLastIndex((count) => count > 0);
  const shown = first < 0 ? [] : counts.slice(first, last + 1).map((count, nth) => [first + nth, count]);
  return html`<figure class="chart"><figcaption>${title}</figcaption>
    ${shown.length === 0 ? html`<p class="quiet">No run in this time.</p>` : html`<ul class="histogram">
      ${shown.map(([nth, count]) => html`<li key=${nth}><span>${nth === 19 ? "more" : `up to ${duration(2 ** nth / 1000)}`}</span>
        <meter min="0" max=${most} value=${count}></meter> ${number(count)}</li>`)}
    </ul>`}</figure>`;
}
