/*
 * Small line charts. The geometry is pure; draw() keeps one SVG up to date by
 * its attributes alone, because the page's policy allows no inline style.
 * A value that is not known (null: nothing was delivered) leaves a gap.
 */
export const width = 120;
export const height = 40;

/* The least of 1, 2, 5 times a power of ten that is not below any value. */
export function niceMaximum(values, least = 0) {
  const most = Math.max(least, ...values.filter((value) => value !== null));
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= most * (1 - 1e-9));
  return Number((step * power).toPrecision(1));
}

const place = (value, index, n, maximum) => {
  const x = n > 1 ? (index * width) / (n - 1) : width;
  const y = height - (Math.min(value, maximum) / maximum) * height;
  return `${Number(x.toFixed(2))},${Number(y.toFixed(2))}`;
};

/* "M0,40L2,38…"; a lone value between gaps is a short line, so that it can be seen. */
export function linePath(values, maximum) {
  let path = "";
  values.forEach((value, index) => {
    if (value === null) return;
    const isFirst = index === 0 || values[index - 1] === null;
    const isLone = isFirst && (index === values.length - 1 || values[index + 1] === null);
    path += (isFirst ? "M" : "L") + place(value, index, values.length, maximum) + (isLone ? "h0.5" : "");
  });
  return path;
}

/* The line, closed along the ground: the faint area under it. */
export function areaPath(values, maximum) {
  const n = values.length;
  let path = "";
  for (let start = 0; start < n; start++) {
    if (values[start] === null) continue;
    let end = start;
    while (end + 1 < n && values[end + 1] !== null) end++;
    if (end > start) {
      path += `M${place(0, start, n, maximum)}`;
      for (let i = start; i <= end; i++) path += `L${place(values[i], i, n, maximum)}`;
      path += `L${place(0, end, n, maximum)}Z`;
    }
    start = end;
  }
  return path;
}

/* Which of n values is under the pointer, at a fraction of the chart's width. */
export function indexAt(fraction, n) {
  return Math.max(0, Math.min(n - 1, Math.round(fraction * (n - 1))));
}

const svgNamespace = "http://www.w3.org/2000/svg";

function shape(svg, name, className) {
  const node = document.createElementNS(svgNamespace, name);
  node.setAttribute("class", className);
  svg.append(node);
  return node;
}

const change = (node, name, value) => {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
};

/*
 * An empty chart with so many lines, the first of them with its area. onPoint(index) is told where
 * the pointer is, and null when it has left.
 */
export function makeChart(nLines, onPoint) {
  const svg = document.createElementNS(svgNamespace, "svg");
  svg.setAttribute("viewBox", `0 -1 ${width} ${height + 2}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("class", "chart");
  const ground = shape(svg, "path", "ground");
  ground.setAttribute("d", `M0,${height}H${width}M0,0H${width}`);
  const area = shape(svg, "path", "area");
  const marker = shape(svg, "path", "marker");
  const lines = Array.from({ length: nLines }, (_, i) => shape(svg, "path", `line line-${i}`));
  const chart = { svg, area, marker, lines, nPoints: 0 };
  const point = (index) => {
    const x = chart.nPoints > 1 ? (index * width) / (chart.nPoints - 1) : 0;
    change(marker, "d", index === null ? "" : `M${x},0V${height}`);
    onPoint(index);
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    if (chart.nPoints > 0) point(indexAt((event.clientX - box.left) / box.width, chart.nPoints));
  });
  svg.addEventListener("pointerleave", () => point(null));
  return chart;
}

/* `series` has one list of values for each line. Answers what the top of the chart stands for. */
export function drawChart(chart, series, least, words) {
  const maximum = niceMaximum(series.flat(), least);
  chart.nPoints = series[0].length;
  change(chart.area, "d", areaPath(series[0], maximum));
  series.forEach((values, i) => change(chart.lines[i], "d", linePath(values, maximum)));
  change(chart.svg, "aria-label", words);
  return maximum;
}
