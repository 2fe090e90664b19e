/**
 * Functions that create HTML elements, and controls that show a value and report its changes.
 *
 * A control is {element, input, show(value), isBusy()}. `show` does not report a change. `isBusy`
 * returns true while the user is changing the control. A busy control must not be updated.
 * Listeners are on elements of the control and are removed with these elements.
 */

import { icon } from "./icons.js";

/** Create an element with attributes and children. `text` is the text; null values are omitted. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = value;
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Scroll the panel and the notebook until `element` is visible. */
export function bringIntoView(element) {
  element.scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** A button with an icon, a text, or both; `title` describes its action. */
export function makeButton({ image = null, text = "", title, name = "", onClick }) {
  const element = make("button", {
    type: "button", title, "aria-label": title, class: `nerfmac-button ${name}`.trim(),
  });
  if (image) element.append(icon(image));
  if (text) element.append(make("span", { text }));
  element.addEventListener("click", onClick);
  return element;
}

/** A row of radio buttons. `choices` are [value, text, title]. */
export function makeChoice({ label, choices, onChange }) {
  const element = make("div", { class: "nerfmac-choice", role: "group", "aria-label": label });
  const show = (value) => {
    for (const button of element.children) {
      button.setAttribute("aria-pressed", String(button.dataset.value === value));
    }
  };
  for (const [value, text, title] of choices) {
    const onClick = () => {
      show(value);
      onChange(value);
    };
    const button = makeButton({ text, title, onClick });
    button.dataset.value = value;
    element.append(button);
  }
  const rename = (others) => others.forEach(([, text, title], index) => {
    const button = element.children[index];
    button.firstChild.textContent = text;
    button.title = title;
    button.setAttribute("aria-label", title);
  });
  return { element, show, rename, isBusy: () => false };
}

/**
 * A slider for the values of `limit(low, high)`, by default from 0 to 1. `toPosition` and `toValue`
 * convert the value to the position of the thumb and back. By default, the position is the value.
 * `toText` converts the value to text. With `hasNone`, the right end means null, or no limit.
 */
export function makeSlider({
  label, step, onInput, toText = String, toValue = (place) => place,
  toPosition = (value) => value, title = label, hasNone = false,
}) {
  const input = make("input", {
    type: "range", min: 0, max: 1, step, title, "aria-label": label, class: "nerfmac-range",
  });
  const textOf = (value) => (value === null ? "no limit" : toText(value));
  const output = make("output", { class: "nerfmac-value" });
  let isHeld = false;
  const write = (value) => {
    const { min, max } = input;
    input.style.setProperty("--nerfmac-fill", `${((input.value - min) / (max - min)) * 100}%`);
    output.textContent = textOf(value);
    input.setAttribute("aria-valuetext", textOf(value));
  };
  const report = () => {
    const isNone = hasNone && input.value === input.max;
    const value = isNone ? null : toValue(Number(input.value));
    write(value);
    onInput(value);
  };
  input.addEventListener("pointerdown", () => (isHeld = true));
  for (const type of ["pointerup", "pointercancel", "lostpointercapture", "change", "blur"]) {
    input.addEventListener(type, () => (isHeld = false));
  }
  input.addEventListener("input", report);
  let shown = 0;
  const show = (value) => {
    shown = value;
    input.value = value === null ? input.max : toPosition(value);
    write(value);
  };
  const limit = (low, high) => {
    input.min = toPosition(low);
    input.max = toPosition(high) + (hasNone ? step : 0);
    show(shown); // the browser has clipped it to the earlier range
  };
  const caption = make("span", { text: label, class: "nerfmac-label" });
  const head = make("span", { class: "nerfmac-head" }, caption, output);
  const element = make("label", { class: "nerfmac-field" }, head, input);
  return { element, input, show, limit, isBusy: () => isHeld };
}

/** A collapsed section "More" with settings that are rarely used. */
export function makeMore(...children) {
  return make(
    "details", { class: "nerfmac-more" }, make("summary", { text: "More" }),
    make("div", { class: "nerfmac-group" }, ...children),
  );
}

/** A switch. */
export function makeToggle({ label, title = label, onChange }) {
  const input = make("input", {
    type: "checkbox", role: "switch", title, "aria-label": label, class: "nerfmac-switch",
  });
  input.addEventListener("change", () => onChange(input.checked));
  const caption = make("span", { text: label, class: "nerfmac-label" });
  const element = make("label", { class: "nerfmac-row" }, caption, input);
  return { element, input, show: (value) => (input.checked = value), isBusy: () => false };
}

/** A drop-down list. `choices` are [value, text]. */
export function makeSelect({ label, choices, onChange }) {
  const options = choices.map(([value, text]) => make("option", { value, text }));
  const input = make(
    "select", { "aria-label": label, title: label, class: "nerfmac-input" }, ...options,
  );
  input.addEventListener("change", () => onChange(input.value));
  const caption = make("span", { text: label, class: "nerfmac-label" });
  const element = make("label", { class: "nerfmac-row" }, caption, input);
  return { element, input, show: (value) => (input.value = value), isBusy: () => false };
}

/** A color picker with values "#rrggbb". */
export function makeColor({ label, onInput }) {
  const input = make("input", {
    type: "color", "aria-label": label, title: label, class: "nerfmac-color",
  });
  let isHeld = false;
  input.addEventListener("input", () => {
    isHeld = true;
    onInput(input.value);
  });
  for (const type of ["change", "blur"]) input.addEventListener(type, () => (isHeld = false));
  const caption = make("span", { text: label, class: "nerfmac-label" });
  const element = make("label", { class: "nerfmac-row" }, caption, input);
  return { element, input, show: (value) => (input.value = value), isBusy: () => isHeld };
}

/**
 * A text field for a number. An empty field is reported as null. Text that is not a number in the
 * range of `limit(min, max)` is marked as invalid and not reported. The control is busy while the user types.
 */
export function makeNumber({ label, title = label, whole = false, onChange }) {
  const input = make("input", {
    type: "number", step: whole ? 1 : "any", "aria-label": label, title,
    placeholder: "none", class: "nerfmac-input nerfmac-number",
  });
  let isTyped = false;
  input.addEventListener("input", () => (isTyped = true));
  input.addEventListener("change", () => {
    isTyped = false;
    if (input.validity.valid) onChange(input.value === "" ? null : Number(input.value));
  });
  input.addEventListener("blur", () => (isTyped = false));
  const show = (value) => (input.value = value ?? "");
  const limit = (min, max) => Object.assign(input, { min, max });
  return { element: input, input, show, limit, isBusy: () => isTyped };
}

/** A text field with one line. */
export function makeText({ label, value }) {
  return make("input", {
    type: "text", "aria-label": label, title: label, value, spellcheck: "false",
    class: "nerfmac-input",
  });
}

/** A progress bar. `show(part, text)` shows a fraction in [0, 1] and a text; null hides the bar. */
export function makeProgress(label) {
  const fill = make("div", { class: "nerfmac-progress-fill" });
  const element = make("div", {
    class: "nerfmac-progress", role: "progressbar", "aria-label": label, "aria-valuemin": 0,
    "aria-valuemax": 100,
  }, fill);
  const show = (part, text = "") => {
    fill.style.width = `${100 * (part ?? 0)}%`;
    if (part === null) element.removeAttribute("aria-valuenow");
    else element.setAttribute("aria-valuenow", Math.round(100 * part));
    element.setAttribute("aria-valuetext", text);
    element.title = text;
  };
  return { element, show };
}

/**
 * The progress of a job with a button that cancels it. `show(job)` shows the text and the fraction
 * in [0, 1] that `toText` and `toFraction` return for the job; null hides the element.
 */
export function makeJob({ name, toText, toFraction, onCancel }) {
  const bar = makeProgress(`Progress of the ${name}`);
  const text = make("span", { class: "nerfmac-message nerfmac-grow" });
  const cancel = makeButton({
    text: "Cancel", title: `Cancel the ${name}`, name: "nerfmac-plain", onClick: onCancel,
  });
  const line = make("div", { class: "nerfmac-line" }, text, cancel);
  const element = make("div", { class: "nerfmac-group", hidden: "" }, bar.element, line);
  const show = (job) => {
    element.hidden = job === null;
    if (job === null) return;
    text.textContent = toText(job);
    bar.show(toFraction(job), text.textContent);
  };
  return { element, show };
}

/** Send all events of a pressed pointer to `element`, even if the pointer leaves it. */
export function capturePointer(element, event) {
  try {
    element.setPointerCapture(event.pointerId);
  } catch {
    // A synthetic event has no pointer that can be captured. Dragging works without the capture.
  }
}
