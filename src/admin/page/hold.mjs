/* While a person reads or selects in a list, it stands still. */

/* `hold.isOn` says whether it does; onChange() is told when that changes. */
export function makeHold(box, onChange) {
  const hold = { isOn: false };
  const look = () => {
    const isOn = box.matches(":hover") || box.contains(document.activeElement);
    if (isOn === hold.isOn) return;
    hold.isOn = isOn;
    onChange(isOn);
  };
  for (const name of ["pointerenter", "pointerleave", "focusin", "focusout"]) box.addEventListener(name, () => setTimeout(look));
  return hold;
}
