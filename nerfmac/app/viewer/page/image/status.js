/** Elements over the image that show the sharpness, notices, and the state of the kernel. */

import { make, makeButton } from "../controls/controls.js";

const PATIENCE = 2500; // milliseconds without a message until no kernel is assumed
const NO_KERNEL = "No kernel is connected to this image. Run the cell to look around.";
const STOPPED = "The kernel has stopped or was restarted. Run the cell again to continue.";

/** Show the bar `element` while the image has less than full resolution. */
export function showSharpness(element, image) {
  image.onDrawn((content) => {
    const scale = content?.scale ?? 1;
    element.hidden = scale >= 1;
    element.style.transform = `scaleX(${scale})`;
    element.title = `${Math.round(100 * scale)} % of the full resolution`;
  });
}

/** A line for notices of the kernel. A dismissed notice is hidden until its text changes. */
export function buildNotice(link) {
  let dismissed = null;
  const text = make("span", {});
  const element = make("div", { class: "nerfmac-notice", role: "alert", hidden: "" }, text);
  element.append(makeButton({
    image: "close", title: "Dismiss",
    onClick: () => {
      dismissed = text.textContent;
      element.hidden = true;
    },
  }));
  link.on("state", ({ notice }) => {
    if (notice !== dismissed) dismissed = null;
    element.hidden = !notice || notice === dismissed;
    if (notice && text.textContent !== notice) text.textContent = notice;
  });
  return element;
}

/** While no kernel answers, show the last image or the stored image, and disable the controls. */
export function showStillUntilLive({ model, parts, image, link, signal }) {
  const { root, toolbar, panels, hint } = parts;
  const { waiting = NO_KERNEL, stopped = STOPPED } = model.get("texts") ?? {};
  const setLive = (isLive) => {
    root.dataset.live = String(isLive);
    root.toggleAttribute("data-lm-suppress-shortcuts", isLive);
    toolbar.disabled = !isLive;
    panels.disabled = !isLive;
  };
  const show = () => {
    if (!link.isLive) image.showStill(model.get("still"));
  };
  const timer = setTimeout(() => {
    hint.textContent = waiting;
  }, PATIENCE);
  setLive(false);
  show();
  model.on("change:still", show);
  for (const event of ["live", "answering"]) {
    link.on(event, () => {
      clearTimeout(timer);
      hint.textContent = "";
      setLive(true);
    });
  }
  link.on("silent", () => {
    hint.textContent = stopped;
    setLive(false);
  });
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    model.off("change:still", show);
  });
}
