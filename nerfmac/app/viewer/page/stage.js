/**
 * The HTML elements of the viewer, and the size of the image area.
 *
 *     root .nerfmac-viewer > stage (image, status and hint over it, panels, grip), toolbar
 *
 * The page sends the size of the image area to the kernel in device pixels, at least 1 x 1. Larger
 * areas than 3840 x 2160 are scaled down at the same aspect ratio. If the image area is hidden, the
 * page sends no size.
 */

import { capturePointer, make } from "./controls/controls.js";

const WIDEST = 3840;
const HIGHEST = 2160;
const LOWEST_STAGE = 120; // CSS pixels
const GRIP_STEP = 20; // CSS pixels that an arrow key moves the lower edge

/** Create the elements of a viewer inside `el`. Returns the elements, keyed by name. */
export function buildStage(el) {
  const canvas = (name) => make("canvas", { class: `nerfmac-${name}` });
  const parts = {
    frame: canvas("frame"), warp: canvas("warp"), photo: canvas("photo"),
    overlay: canvas("overlay"),
    status: make("div", { class: "nerfmac-status" }),
    hint: make("div", { class: "nerfmac-hint", role: "status" }),
    badge: make("div", { class: "nerfmac-badge", role: "status", hidden: "" }),
    toolbar: make("fieldset", { class: "nerfmac-toolbar", "aria-label": "Viewer" }),
    grip: make("div", {
      class: "nerfmac-grip", tabindex: 0, role: "separator", "aria-orientation": "horizontal",
      "aria-label": "Height of the image", title: "Drag to change the height",
    }),
  };
  parts.area = make("div", {
    class: "nerfmac-image", tabindex: 0, role: "application",
    "aria-label": "Scene: drag to orbit, shift and drag to pan, wheel to come closer, WASD to walk,"
      + " R to return",
  }, parts.frame, parts.warp, parts.photo, parts.overlay);
  parts.floating = make(
    "div", { class: "nerfmac-floating" }, parts.area, parts.status, parts.hint, parts.badge, parts.grip,
  );
  parts.panels = make("fieldset", { class: "nerfmac-panels", "aria-label": "Panels" });
  parts.stage = make("div", { class: "nerfmac-stage" }, parts.floating, parts.panels);
  parts.root = make("div", { class: "nerfmac-viewer" }, parts.stage, parts.toolbar);
  // The keys for walking must not reach JupyterLab's shortcuts (D D deletes the cell). Without a
  // kernel, keys do nothing here, and Shift+Enter must run the cell.
  parts.root.addEventListener("keydown", (event) => {
    if (parts.root.dataset.live === "true") event.stopPropagation();
  });
  el.append(parts.root);
  return parts;
}

/** Width and height in device pixels, within the limits, or null for a hidden area. */
export function deviceSize(width, height) {
  if (width <= 0 || height <= 0) return null;
  const scale = Math.min(1, WIDEST / width, HIGHEST / height);
  return [width, height].map((side) => Math.max(1, Math.round(side * scale)));
}

/** Call `onSize(width, height)` with the size of `area` in device pixels, whenever it changes. */
export function watchSize(area, onSize, signal) {
  const observer = new ResizeObserver((entries) => {
    const { width, height } = entries.at(-1).contentRect;
    const ratio = window.devicePixelRatio;
    const size = deviceSize(width * ratio, height * ratio);
    if (size) onSize(...size);
  });
  try {
    observer.observe(area, { box: "device-pixel-content-box" }); // includes pixel ratio changes
  } catch {
    observer.observe(area); // Safari does not support this box
  }
  signal.addEventListener("abort", () => observer.disconnect());
}

/** Change the height of the image when the user drags the grip or moves it with the arrow keys. */
export function letGripResize(grip, floating) {
  let from = null;
  const set = (height) => {
    floating.style.height = `${Math.max(LOWEST_STAGE, Math.round(height))}px`;
  };
  grip.addEventListener("pointerdown", (event) => {
    from = { y: event.clientY, height: floating.clientHeight };
    capturePointer(grip, event);
    event.preventDefault();
    grip.focus({ preventScroll: true });
  });
  grip.addEventListener("pointermove", (event) => {
    if (from) set(from.height + event.clientY - from.y);
  });
  for (const type of ["pointerup", "pointercancel", "lostpointercapture"]) {
    grip.addEventListener(type, () => (from = null));
  }
  grip.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -GRIP_STEP, ArrowDown: GRIP_STEP }[event.key];
    if (!step) return;
    event.preventDefault();
    set(floating.clientHeight + step);
  });
}

/** Switch full screen on or off. An iPhone has no full screen (`document.fullscreenEnabled`). */
export async function toggleFullScreen(root) {
  try {
    if (document.fullscreenElement === root) await document.exitFullscreen();
    else await root.requestFullscreen();
  } catch {
    // The notebook page forbids full screen for cell outputs, so the viewer does not change.
  }
}
