// Charts by uPlot, which the page has loaded as a script of its own; and a histogram of plain elements.

import { html, useEffect, useRef } from "./preact.js";
import { duration, number } from "./format.js";

const COLOURS = ["--good", "--warn", "--bad", "--main"];
const HEIGHT = 160;

// One chart: `at` are seconds since 1970, `lines` are names with a value for each of them, null where there is none.
export function Chart({ title, at, lines, unit = "" }) {
  const place = useRef(null);
  const chart = useRef(null);
  const data = [at, ...lines.map(([, values]) => values)];
  const text = unit === "s" ? duration : number;
  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    chart.current = new window.uPlot({
      width: Math.max(place.current.clientWidth, 100), height: HEIGHT, cursor: { y: false }, legend: { live: true },
      scales: { y: { range: (_, least, most) => [0, Math.max(most ?? 0, unit === "s" ? 0.001 : 1)] } },
      axes: [axis, { ...axis, size: 58, values: (_, marks) => marks.map((mark) => text(mark)) }],
      series: [
        { value: (_, value) => (value ? new Date(value * 1000).toLocaleTimeString() : "") },
        ...lines.map(([name], nth) => ({ label: name, stroke: colour(COLOURS[nth]), width: 1.5, points: { show: at.length < 3 }, value: (_, value) => (value === null ? "" : text(value)) })),
      ],
    }, data, place.current);
    const resized = new ResizeObserver(() => chart.current.setSize({ width: Math.max(place.current.clientWidth, 100), height: HEIGHT }));
    resized.observe(place.current);
    return () => {
      resized.disconnect();
      chart.current.destroy();
    };
  }, []);
  useEffect(() => chart.current.setData(data), [JSON.stringify(data)]);
  const last = lines.map(([name, values]) => `${name} ${text(values.at(-1) ?? 0) || 0}`).join(", ");
  return html`<figure class="chart"><figcaption>${title}</figcaption><div ref=${place} role="img" aria-label="${title}; at the end: ${last}"></div></figure>`;
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
