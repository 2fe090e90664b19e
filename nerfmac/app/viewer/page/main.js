/**
 * Entry point of the viewer page: `render` creates one view of the widget in `el` and returns a
 * function that removes the view. All content of a view comes from messages of the kernel, so a
 * reloaded page or a second view is complete after its `ready` message.
 */

import { Compare } from "./image/compare.js";
import { bringIntoView, makeButton } from "./controls/controls.js";
import { CropBox } from "./overlay/cropbox.js";
import { Film } from "./overlay/film.js";
import { Frusta } from "./overlay/frusta.js";
import { walkByKeys } from "./motion/keys.js";
import { buildExport } from "./panels/export.js";
import { buildShare } from "./panels/files.js";
import { buildKeep } from "./panels/keep.js";
import { Link } from "./kernel/link.js";
import { Motion } from "./motion/motion.js";
import { Overlay } from "./overlay/overlay.js";
import { buildPanels } from "./panels/panels.js";
import { buildPath } from "./panels/path.js";
import { PathLine } from "./overlay/pathline.js";
import { Image } from "./image/image.js";
import { PointerInput } from "./motion/pointer.js";
import { tellVisible, watchKernel } from "./kernel/pulse.js";
import { Settings } from "./kernel/settings.js";
import { buildStage, letGripResize, toggleFullScreen, watchSize } from "./stage.js";
import { buildNotice, showSharpness, showStillUntilLive } from "./image/status.js";
import { buildTraining } from "./panels/training.js";
import { buildView } from "./panels/view.js";
import { Warp } from "./image/warp.js";

const READY_AGAIN = 500; // milliseconds until `ready` is sent again

function render({ model, el }) {
  const ending = new AbortController();
  const { signal } = ending;
  const parts = buildStage(el);
  const link = new Link(model, signal);
  const settings = new Settings(link, signal);
  const warp = Warp.begin(parts.warp);
  const motion = new Motion({ link, warps: warp !== null });
  // End-to-end tests read this record: when images were drawn and their latencies, when the frames
  // of the kernel arrived, the requested view, and the shown view.
  const record = {
    frames: [], latencies: [], answered: [], received: [], pose: null, lastFrame: null,
    get view() { return motion.view; },
  };
  parts.root.nerfmac = record;
  const image = new Image({ canvas: parts.frame, link, record, motion, warp });
  const reset = (t) => link.send({ kind: "reset", t });
  settings.onChange((name, value) => {
    if (name === "background" && warp) warp.backdrop = channelsOf(value);
  });
  const seen = buildSeen({ parts, image, link, settings, motion });
  buildControls({ parts, link, settings, motion, record, seen, image, reset, signal });
  parts.floating.append(
    ...seen.compare.elements, seen.overlay.tooltip, seen.frusta.legend, buildNotice(link),
  );
  new PointerInput(parts.area, motion, targetsOf(parts.area, image, link, seen.overlay), signal);
  walkByKeys(parts.area, motion, reset, signal);
  letGripResize(parts.grip, parts.floating);
  showSharpness(parts.status, image);
  showStillUntilLive({ model, parts, image, link, signal });
  watchKernel(link, signal);
  tellVisible(parts.area, link, signal);
  tellSize({ model, area: parts.area, image, link, motion, signal });
  return () => {
    motion.stop();
    link.post({ kind: "leave" });
    ending.abort();
    for (const part of [image, seen.overlay, seen.compare]) part.close();
    parts.root.remove();
  };
}

/** The channels of a color "#rrggbb", each in [0, 1]. */
function channelsOf(color) {
  return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255);
}

/** Create the layers over the frame. */
function buildSeen({ parts, image, link, settings, motion }) {
  const { area } = parts;
  const frusta = new Frusta(link);
  const film = new Film();
  const pathLine = new PathLine(link, film);
  const cropBox = new CropBox(link, settings);
  const compare = new Compare({ canvas: parts.photo, area, image, link, frusta, motion });
  const overlay = new Overlay({
    canvas: parts.overlay, area, image, link, frusta, cropBox, lines: [film, pathLine],
  });
  settings.onChange(() => overlay.refresh());
  return { frusta, pathLine, film, cropBox, compare, overlay };
}

/** Create the toolbar and its panels. */
function buildControls({ parts, link, settings, motion, record, seen, image, reset, signal }) {
  const training = buildTraining(link, settings, signal);
  const view = buildView({ link, settings, seen, motion });
  const { pathLine, film, overlay } = seen;
  const path = buildPath({ link, settings, motion, film, badge: parts.badge, record, signal });
  const showFilm = (isOpen) => {
    film.isShown = pathLine.isOpen = isOpen;
    overlay.refresh();
    path.toggle(isOpen);
  };
  film.onChange = () => overlay.refresh();
  const { buttons, panels, close } = buildPanels([
    { name: "training", label: "Training", image: "chart", content: training.panel },
    { name: "view", label: "View", image: "eye", content: view },
    { name: "path", label: "Path", image: "path", content: path.element, onToggle: showFilm },
    { name: "export", label: "Export", image: "page", content: buildExport(link) },
    { name: "share", label: "Share", image: "share", content: buildShare(link) },
  ]);
  parts.panels.append(...panels);
  // A panel covers the right part of the image or, on a narrow page, is below the image.
  seen.compare.onBegin = () => {
    close();
    bringIntoView(parts.floating);
    parts.area.focus({ preventScroll: true });
  };
  parts.toolbar.append(
    training.runButton, training.summary, ...buttons, ...buildKeep(link, image),
    makeButton({
      image: "home", title: "Reset view (R)", onClick: () => reset(performance.now()),
    }),
    ...(document.fullscreenEnabled ? [makeButton({
      image: "expand", title: "Full screen", onClick: () => toggleFullScreen(parts.root),
    })] : []),
  );
}

/** Handlers for elements on the image that the pointer can hit; see pointer.js. */
function targetsOf(area, image, link, overlay) {
  const look = ({ x, y }, t) => {
    const { left, top, width, height } = image.rectangle(area.clientWidth, area.clientHeight);
    const [across, down] = [(x - left) / width, (y - top) / height];
    const isOnImage = across >= 0 && across <= 1 && down >= 0 && down <= 1;
    if (isOnImage) link.send({ kind: "look", x: across, y: down, t });
  };
  return {
    look, press: (place) => overlay.press(place), hover: (place) => overlay.hover(place),
    click: (place, time) => overlay.click(place, time),
  };
}

/**
 * Send `ready` to the kernel when the view becomes visible, and send the size whenever it changes.
 *
 * JupyterLab usually delivers messages while a cell runs. However, messages that are sent
 * immediately after the view is created wait for the end of the cell. Therefore, `ready` is repeated
 * until the kernel answers. The kernel recognizes repeated messages by the name of the page. A kernel
 * that does not know the page asks for the message `again`.
 */
function tellSize({ model, area, image, link, motion, signal }) {
  let size = null;
  const tell = () => link.post({
    kind: "ready", warps: image.warp !== null, ...size,
    view: motion.view ? motion.place() : model.get("place"), // if the page was open before
  });
  link.on("again", tell);
  const again = setInterval(() => {
    if (link.isLive) clearInterval(again);
    else if (size) tell();
  }, READY_AGAIN);
  signal.addEventListener("abort", () => clearInterval(again));
  watchSize(area, (width, height) => {
    const isFirst = size === null;
    size = { width, height };
    image.resize(width, height);
    if (isFirst) tell();
    else link.later("size", { kind: "size", ...size });
  }, signal);
}

export default { render };
