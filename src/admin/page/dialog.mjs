/* One question at a time, in the page's only <dialog>; and short messages that go by themselves. */
import { $, icon, make, setAttribute, setHidden, setText } from "./dom.mjs";

let last = Promise.resolve();

/*
 * {title, text, confirm, isDangerous?, field?: {label, type, isRequired?}}
 * Answers the field's value ("" without a field), or null if it was cancelled.
 */
export function ask(question) {
  last = last.then(() => askNow(question));
  return last;
}

function askNow({ title, text, confirm, isDangerous = false, field = null }) {
  const dialog = $("dialog");
  const input = $("dialog-field");
  setText($("dialog-title"), title);
  setText($("dialog-text"), text);
  setText($("dialog-confirm"), confirm);
  setAttribute($("dialog-confirm"), "class", isDangerous ? "danger" : "primary");
  setHidden($("dialog-label"), field === null);
  if (field !== null) {
    setText($("dialog-label-text"), field.label);
    input.type = field.type;
    input.required = Boolean(field.isRequired);
  } else {
    input.required = false;
  }
  input.value = "";
  dialog.returnValue = "";
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        const value = input.value;
        input.value = "";
        resolve(dialog.returnValue === "yes" ? value : null);
      },
      { once: true },
    );
    dialog.showModal();
    if (field !== null) input.focus();
    else $(isDangerous ? "dialog-cancel" : "dialog-confirm").focus();
  });
}

export function prepareDialog() {
  $("dialog-form").addEventListener("submit", (event) => {
    event.preventDefault();
    $("dialog").close("yes");
  });
  $("dialog-cancel").addEventListener("click", () => $("dialog").close(""));
}

/* `isBad`: it stays until it is dismissed. */
export function tell(words, isBad = false) {
  const close = make("button", { type: "button", class: "quiet", "aria-label": "Dismiss" }, icon("cross"));
  const note = make("div", { class: isBad ? "notice bad" : "notice ok" }, icon(isBad ? "alert" : "check"), make("p", {}, words), close);
  close.addEventListener("click", () => note.remove());
  $("notices").append(note);
  while ($("notices").children.length > 3) $("notices").firstElementChild.remove();
  if (!isBad) setTimeout(() => note.remove(), 6000);
}
