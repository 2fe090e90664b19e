/** Texts over the picture: frame rate and latency, notices, and whether there is a kernel. */

import { make, makeButton } from "../controls/controls.js";

const WINDOW = 2000; // milliseconds over which the status line averages
const PERIOD = 500;
const PATIENCE = 2500; // milliseconds without a message: no kernel is assumed
const NO_KERNEL = "No kernel is connected to this image. Run the cell to look around.";
const STOPPED = "The kernel has stopped or was restarted. Run the cell again to continue.";

/** Frames per second and median latency in milliseconds (null: none) over `WINDOW`. */
export function paceOf({ frames, latencies, answered }, now) {
  const recent = frames.filter((time) => now - time < WINDOW);
  const waited = latencies.filter((_, index) => now - answered[index] < WINDOW);
  waited.sort((one, other) => one - other);
  return {
    rate: recent.length / (WINDOW / 1000), latency: waited[Math.floor(waited.length / 2)] ?? null,
  };
}

/** Keep `element` showing the rate and latency of the frames in `record`. */
export function tellPace(element, record, signal) {
  const write = () => {
    const { rate, latency } = paceOf(record, performance.now());
    const scale = record.lastFrame?.scale;
    const parts = [];
    if (rate >= 2) parts.push(`${Math.round(rate)} frames/s`);
    if (latency !== null) parts.push(`${Math.round(latency)} ms`);
    const percent = Math.round(100 * scale);
    if (scale) parts.push(percent < 100 ? `${percent} % resolution` : "full resolution");
    const text = parts.join(" · ");
    if (element.textContent !== text) element.textContent = text;
  };
  const timer = setInterval(write, PERIOD);
  signal.addEventListener("abort", () => clearInterval(timer));
}

/** A line for the kernel's notices; a dismissed notice is hidden until there is another one. */
export function buildNotice(link) {
  let dismissed = null;
  const text = make("span", {});
  const element = make("div", { class: "nerfmac-notice", role: "alert", hidden: "" }, text);
  element.append(makeButton({
    picture: "close", title: "Dismiss",
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

/** While no kernel answers: show the last image or the still, and disable the controls. */
export function showStillUntilLive({ model, parts, picture, link, signal }) {
  const { root, toolbar, panels, hint } = parts;
  const setLive = (isLive) => {
    root.dataset.live = String(isLive);
    toolbar.disabled = !isLive;
    panels.disabled = !isLive;
  };
  const show = () => {
    if (!link.isLive) picture.showStill(model.get("still"));
  };
  const timer = setTimeout(() => {
    hint.textContent = NO_KERNEL;
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
    hint.textContent = STOPPED;
    setLive(false);
  });
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    model.off("change:still", show);
  });
}
