/**
 * The viewer's page: `render` builds one view of the widget in `el` and returns the function that
 * removes it. Everything that a view shows comes from the kernel's messages, so a reloaded page or
 * a second view is complete after its `ready` message.
 */

import { Compare } from "./picture/compare.js";
import { bringIntoView, makeButton } from "./controls/controls.js";
import { CropBox } from "./overlay/cropbox.js";
import { Frusta } from "./overlay/frusta.js";
import { walkByKeys } from "./motion/keys.js";
import { Link } from "./kernel/link.js";
import { Motion } from "./motion/motion.js";
import { Overlay } from "./overlay/overlay.js";
import { buildPanels } from "./panels/panels.js";
import { buildPath } from "./panels/path.js";
import { PathLine } from "./overlay/pathline.js";
import { Picture } from "./picture/picture.js";
import { PointerInput } from "./motion/pointer.js";
import { Settings } from "./kernel/settings.js";
import { buildStage, letGripResize, toggleFullScreen, watchSize } from "./stage.js";
import { buildNotice, showStillUntilLive, tellPace } from "./picture/status.js";
import { buildTraining } from "./panels/training.js";
import { buildView } from "./panels/view.js";

const READY_AGAIN = 500; // milliseconds until `ready` is sent again

function render({ model, el }) {
  const ending = new AbortController();
  const { signal } = ending;
  const parts = buildStage(el);
  // Measurements for the status line and end-to-end tests: when frames were drawn, and latencies.
  const record = { frames: [], latencies: [], answered: [], pose: null, lastFrame: null };
  parts.root.nerfmac = record;
  const link = new Link(model, signal);
  const settings = new Settings(link, signal);
  const motion = new Motion(link);
  const picture = new Picture(parts.frame, link, record);
  const seen = buildSeen(parts, picture, link, settings);
  buildControls({ parts, link, settings, motion, record, seen, signal });
  parts.floating.append(...seen.compare.elements, seen.overlay.tooltip, buildNotice(link));
  new PointerInput(parts.area, motion, targetsOf(parts.area, picture, link, seen.overlay), signal);
  walkByKeys(parts.area, motion, link, signal);
  letGripResize(parts.grip, parts.floating);
  tellPace(parts.status, record, signal);
  showStillUntilLive({ model, parts, picture, link, signal });
  tellSize(parts.area, picture, link, signal);
  return () => {
    motion.stop();
    ending.abort();
    for (const part of [picture, seen.overlay, seen.compare]) part.close();
    parts.root.remove();
  };
}

/** The layers over the frame. */
function buildSeen(parts, picture, link, settings) {
  const { area } = parts;
  const frusta = new Frusta(link);
  const pathLine = new PathLine(link);
  const cropBox = new CropBox(link, settings);
  const compare = new Compare({ canvas: parts.photo, area, picture, link, frusta });
  const overlay = new Overlay({
    canvas: parts.overlay, area, picture, link, frusta, pathLine, cropBox,
  });
  settings.onChange(() => overlay.refresh());
  return { frusta, pathLine, cropBox, compare, overlay };
}

/** The toolbar and its panels. */
function buildControls({ parts, link, settings, motion, record, seen, signal }) {
  const training = buildTraining(link, settings, signal);
  const view = buildView({ link, settings, seen, record });
  const path = buildPath(link, motion, record, signal);
  const { buttons, panels, close } = buildPanels([
    { name: "training", label: "Training", picture: "chart", content: training.panel },
    { name: "view", label: "View", picture: "eye", content: view },
    { name: "path", label: "Path", picture: "path", content: path },
  ]);
  parts.panels.append(...panels);
  // A panel covers the right of the picture or, on a narrow page, lies below it.
  seen.compare.onBegin = () => {
    close();
    bringIntoView(parts.floating);
    parts.area.focus({ preventScroll: true });
  };
  parts.toolbar.append(
    training.runButton, training.summary, ...buttons,
    makeButton({
      picture: "home", title: "Reset view (R)",
      onClick: () => link.send({ kind: "reset", t: performance.now() }),
    }),
    makeButton({
      picture: "expand", title: "Full screen", onClick: () => toggleFullScreen(parts.root),
    }),
  );
}

/** Handlers for things on the picture that the pointer can hit; see pointer.js. */
function targetsOf(area, picture, link, overlay) {
  const look = ({ x, y }, t) => {
    const { left, top, width, height } = picture.rectangle(area.clientWidth, area.clientHeight);
    const [across, down] = [(x - left) / width, (y - top) / height];
    const isOnPicture = across >= 0 && across <= 1 && down >= 0 && down <= 1;
    if (isOnPicture) link.send({ kind: "look", x: across, y: down, t });
  };
  return {
    look, press: (place) => overlay.press(place), hover: (place) => overlay.hover(place),
    click: (place, time) => overlay.click(place, time),
  };
}

/**
 * Send the kernel `ready` as soon as the view is visible, and its size whenever it changes.
 *
 * JupyterLab can pass messages to the kernel while a cell runs, but only a moment after the view
 * opens: earlier messages wait for the cell. So `ready` is sent again until the kernel answers;
 * `view` says that it is the same view.
 */
function tellSize(area, picture, link, signal) {
  const view = Math.random().toString(36).slice(2);
  let size = null;
  const tell = () => link.post({ kind: "ready", view, ...size });
  const again = setInterval(() => {
    if (link.isLive) clearInterval(again);
    else if (size) tell();
  }, READY_AGAIN);
  signal.addEventListener("abort", () => clearInterval(again));
  watchSize(area, (width, height) => {
    const isFirst = size === null;
    size = { width, height };
    picture.resize(width, height);
    if (isFirst) tell();
    else link.later("size", { kind: "size", ...size });
  }, signal);
}

export default { render };
