/* Where the time of deliveries goes. */
import { $, list, make, setAttribute, setText } from "./dom.mjs";
import { duration } from "./format.mjs";

const stages = ["pickup", "queue", "send", "settle"];
const inLatency = stages.slice(0, 3); /* what comes after delivery delays no receiver */

function makeStageRow() {
  const bar = make("td", { class: "stage-bar", "aria-hidden": "true", role: "cell" });
  const namespace = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(namespace, "svg");
  for (const stage of inLatency) {
    const rect = document.createElementNS(namespace, "rect");
    rect.setAttribute("class", `stage-${stage}`);
    rect.setAttribute("height", "100%");
    svg.append(rect);
  }
  bar.append(svg);
  const cells = stages.map((stage) => make("td", { role: "cell", "data-label": stage === "settle" ? "settle, after delivery" : stage }, make("b"), make("span", { class: "muted" })));
  return make("tr", { role: "row" }, make("th", { scope: "row", role: "rowheader" }), bar, ...cells);
}

function updateStageRow(row, sink) {
  const [name, bar, ...cells] = row.children;
  const medians = inLatency.map((stage) => sink.stages?.[stage]?.p50 ?? 0);
  const whole = medians.reduce((sum, value) => sum + value, 0);
  let left = 0;
  setText(name, sink.name);
  stages.forEach((stage, i) => {
    if (i < inLatency.length) {
      const share = whole > 0 ? (medians[i] / whole) * 100 : 0;
      const rect = bar.firstElementChild.children[i];
      setAttribute(rect, "x", `${left.toFixed(2)}%`);
      setAttribute(rect, "width", `${share.toFixed(2)}%`);
      left += share;
    }
    setText(cells[i].firstElementChild, duration(sink.stages?.[stage]?.p50 ?? null));
    setText(cells[i].lastElementChild, duration(sink.stages?.[stage]?.p99 ?? null));
  });
}

export function showStages(status) {
  list($("stages"), status.sinks ?? [], (sink) => sink.name, makeStageRow, updateStageRow);
}
