/* Rows of a table. On a phone each cell shows its label, so all of them have one. */
import { icon, make, setAttribute, setIcon, setText } from "./dom.mjs";

export function cell(label, ...children) {
  return make("td", { role: "cell", "data-label": label }, ...children);
}

export const cells = (...labels) => make("tr", { role: "row" }, ...labels.map((label) => cell(label)));

/* null leaves a cell as it is: it is filled by one of those below. */
export function setCells(row, ...texts) {
  texts.forEach((text, i) => {
    if (text === null) return;
    setText(row.children[i], text);
    setAttribute(row.children[i], "title", text.length > 24 ? text : null);
  });
}

/* A word with its icon, in its tone. */
export function setState(node, word, look) {
  if (node.children.length !== 2) node.replaceChildren(icon(look.icon), make("span"));
  setAttribute(node, "data-tone", look.tone);
  setIcon(node.firstElementChild, look.icon);
  setText(node.lastElementChild, word.replaceAll("_", " "));
}

/* A link, or the same words alone where the page has nothing to lead to. */
export function setLink(node, text, href) {
  if (node.firstElementChild === null) node.replaceChildren(make("a"));
  setText(node.firstElementChild, text);
  setAttribute(node.firstElementChild, "href", href);
  setAttribute(node, "title", text.length > 24 ? text : null);
}
