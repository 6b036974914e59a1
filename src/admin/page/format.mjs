/*
 * Numbers, times and sizes as people read them. Pure; what is not known (null)
 * is an en dash everywhere. Widths change little from second to second, so that
 * nothing on the page jumps.
 */
export const unknown = "–";

const grouped = new Intl.NumberFormat("en-US");

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/* Three significant digits without an exponent: 0.412, 4.12, 41.2, 412. */
function short(value) {
  if (value >= 100) return grouped.format(Math.round(value));
  return value >= 10 ? value.toFixed(1) : value.toFixed(value >= 1 ? 1 : 2);
}

export function count(value, isExact = true) {
  if (!isNumber(value)) return unknown;
  const shown = isExact ? Math.round(value) : Number(value.toPrecision(3));
  const text = value < 1e7 ? grouped.format(shown) : `${short(value / 1e6)} M`;
  return isExact ? text : `≈\u00a0${text}`;
}

export function counted(value, one, many = `${one}s`, isExact = true) {
  return `${count(value, isExact)} ${value === 1 ? one : many}`;
}

export function rate(perSecond) {
  if (!isNumber(perSecond)) return unknown;
  if (perSecond > 0 && perSecond < 0.1) return "< 0.1/s";
  if (perSecond >= 1e6) return `${short(perSecond / 1e6)} M/s`;
  return `${perSecond >= 10 || perSecond === 0 ? count(perSecond) : perSecond.toFixed(1)}/s`;
}

/* 0.4 ms, 41 ms, 3.2 s, 41 s, 4 min 5 s, 2 h 10 min, 3 d 4 h */
export function duration(seconds) {
  if (!isNumber(seconds)) return unknown;
  if (seconds <= 0) return "0 s";
  if (seconds < 0.00995) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${Math.round(seconds * 1e3)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const pair = (value, unit, rest, lesser) => (rest ? `${value} ${unit} ${rest} ${lesser}` : `${value} ${unit}`);
  if (whole < 3600) return pair(Math.floor(whole / 60), "min", whole % 60, "s");
  const minutes = Math.floor(whole / 60);
  if (minutes < 24 * 60) return pair(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.floor(minutes / 60);
  return pair(Math.floor(hours / 24), "d", hours % 24, "h");
}

/* What the top of a chart stands for, 1, 2 or 5 times a power of ten: in one unit, so that it is short and
 * exact: 50 ms, 200 s */
export function axis(seconds) {
  if (!isNumber(seconds) || seconds < 10) return duration(seconds);
  return `${grouped.format(Math.round(seconds))} s`;
}

/* The larger unit only, for what is told beside something else: 4 min, 2 h, 3 d */
export function brief(seconds) {
  if (!isNumber(seconds) || seconds < 1) return duration(seconds);
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  return duration(seconds).split(" ").slice(0, 2).join(" ");
}

export function ago(seconds) {
  if (!isNumber(seconds)) return unknown;
  return seconds < 1.5 ? "just now" : `${brief(seconds)} ago`;
}

/* From one RFC 3339 time to another; null if either is missing or none. */
export function secondsBetween(from, to) {
  const milliseconds = Date.parse(to) - Date.parse(from);
  return Number.isNaN(milliseconds) ? null : Math.max(0, milliseconds / 1e3);
}

/* 14:03:22 of today, else with the date; in the reader's time zone. */
export function clock(time, now = time) {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return unknown;
  const two = (value) => String(value).padStart(2, "0");
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (new Date(now).toDateString() === date.toDateString()) return text;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${text}`;
}

export function bytes(value) {
  if (!isNumber(value)) return unknown;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return unit === 0 ? `${value} B` : `${short(value)} ${units[unit]}`;
}

export function percent(ratio) {
  if (!isNumber(ratio)) return unknown;
  return ratio > 0 && ratio < 0.01 ? "< 1 %" : `${Math.round(ratio * 100)} %`;
}

/* What a destination said to an attempt. "422 Unprocessable Content" begins with the status already. */
export function answerWords({ status = null, answer = null }) {
  if (status === null) return answer ?? "";
  return answer?.startsWith(String(status)) ? answer : `${status} ${answer ?? ""}`.trim();
}
