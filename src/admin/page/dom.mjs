/*
 * The few things that the page does to its document. Text from outside (keys,
 * topics, errors) only ever becomes text nodes; nothing is changed that is
 * already right, so that a selection, a focus and a screen reader stay in peace.
 */
export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function icon(name) {
  const namespace = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(namespace, "svg");
  const use = document.createElementNS(namespace, "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

export function setIcon(svg, name) {
  setAttribute(svg.firstElementChild, "href", `#i-${name}`);
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/* Brings a section into sight, and the focus with it. */
export function goTo(id) {
  $(id).scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  $(id).focus({ preventScroll: true });
}

export function setHidden(node, isHidden) {
  if (node.hidden !== isHidden) node.hidden = isHidden;
}

/*
 * Makes parent's children those of `items`, in order. A child whose key was there before is kept and
 * brought up to date; create(item) answers a node, update(node, item) fills it.
 */
export function list(parent, items, keyOf, create, update) {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let node = old.get(key);
    if (node === undefined) {
      node = create(item);
      node.dataset.key = key;
    }
    old.delete(key);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
    update(node, item);
  }
  for (const node of old.values()) node.remove();
}

/* Options for the names, behind one for all; keeps what is chosen if it is still there. */
export function setOptions(select, names, forAll) {
  const wanted = ["", ...names];
  const old = [...select.options].map((option) => option.value);
  if (old.length === wanted.length && old.every((value, i) => value === wanted[i])) return;
  const chosen = select.value;
  select.replaceChildren(...wanted.map((name) => make("option", { value: name }, name || forAll)));
  select.value = wanted.includes(chosen) ? chosen : "";
}

/* A command to be typed, with a button that copies it. */
export function makeCommand() {
  const code = make("code");
  const button = make("button", { type: "button", class: "copy", "aria-label": "Copy the command", title: "Copy" }, icon("copy"));
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      setIcon(button.firstElementChild, "check");
      setTimeout(() => setIcon(button.firstElementChild, "copy"), 1500);
    } catch {
      getSelection().selectAllChildren(code); /* not allowed here: it only takes a key press */
    }
  });
  const node = make("span", { class: "command" }, code, button);
  return { node, code };
}
