/** The path panel: keyframes, playback of the camera path, and its file. */

import {
  make, makeButton, makeMore, makeSelect, makeSlider, makeText,
} from "../controls/controls.js";
import { icon } from "../controls/icons.js";
import { withEnding } from "../controls/numbers.js";
import { buildVideo } from "./video.js";

const LAP = 12000; // duration in milliseconds of one playback of the whole path

const MOVES = [
  ["keyframes", "through keyframes"], ["orbit", "orbit"], ["spiral", "spiral"],
  ["figure-of-eight", "figure of eight"],
  ["train", "along the photos"], ["test", "along the test views"],
];

/** Create the panel. main.js describes `record`. */
export function buildPath(link, motion, record, signal) {
  const say = (action, index) => link.send(
    index === undefined ? { kind: "keyframe", action } : { kind: "keyframe", action, index },
  );
  const list = make("ol", { class: "nerfmac-keyframes", "aria-label": "Keyframes" });
  const empty = make("p", {
    class: "nerfmac-message",
    text: "Move the camera and add a keyframe. The camera path is a smooth curve through all"
      + " keyframes. With fewer than two keyframes, the video is an orbit around the scene.",
  });
  const add = makeButton({
    image: "plus", text: "Add keyframe", title: "Add the current view to the path",
    name: "nerfmac-plain", onClick: () => say("add"),
  });
  const clear = makeButton({
    text: "Clear", title: "Remove all keyframes", onClick: () => link.send({ kind: "clear" }),
  });
  const moves = makeSelect({
    label: "Move", choices: MOVES, onChange: (name) => link.send({ kind: "follow", name }),
  });
  const go = (at) => link.later("scrub", { kind: "scrub", at, t: performance.now() });
  const scrub = makeSlider({
    label: "Along the path", min: 0, max: 1, step: 0.001,
    toText: (value) => `${Math.round(100 * value)} %`,
    onInput: (at) => {
      play.stop();
      go(at);
    },
  });
  scrub.input.addEventListener("change", () => motion.settle());
  scrub.element.classList.add("nerfmac-grow");
  scrub.show(0);
  const play = buildPlay({ link, motion, scrub, go, signal });
  let shown = null;
  link.on("state", ({ keyframes, move, path }) => {
    if (document.activeElement !== moves.input) moves.show(move);
    empty.hidden = keyframes.length > 1 || move !== "keyframes";
    list.hidden = keyframes.length === 0;
    clear.disabled = keyframes.length === 0;
    scrub.input.disabled = play.element.disabled = path.length === 0;
    const now = JSON.stringify(keyframes);
    if (now === shown) return; // the list is unchanged, so an element in it keeps the focus
    shown = now;
    list.replaceChildren(...keyframes.map(({ fov }, index) => buildKeyframe(fov, index, say)));
  });
  return make(
    "div", { class: "nerfmac-group" }, moves.element,
    make("div", { class: "nerfmac-line" }, play.element, scrub.element), empty, list,
    make("div", { class: "nerfmac-line" }, add, clear), makeMore(buildFile(link)),
    make("hr"), buildVideo(link, record, signal),
  );
}

/**
 * Create the button that plays the path repeatedly, until the user presses the button again or
 * moves the camera. The playback starts at the position of the slider `scrub`. `go(at)` moves the
 * camera to a position on the path.
 */
function buildPlay({ link, motion, scrub, go, signal }) {
  let frame = 0;
  const element = makeButton({
    image: "play", text: "Play", title: "Play the path", name: "nerfmac-plain",
    onClick: () => (frame ? stop() : start()),
  });
  const show = (name, text) => {
    element.replaceChildren(icon(name), make("span", { text }));
    element.title = `${text} the path`;
    element.setAttribute("aria-label", element.title);
  };
  const start = () => {
    const begun = performance.now() - LAP * (Number(scrub.input.value) % 1);
    const step = (now) => {
      frame = requestAnimationFrame(step);
      const at = (Math.max(now - begun, 0) / LAP) % 1;
      scrub.show(at);
      go(at);
    };
    frame = requestAnimationFrame(step);
    show("pause", "Pause");
  };
  const stop = () => {
    if (!frame) return;
    cancelAnimationFrame(frame);
    frame = 0;
    show("play", "Play");
    motion.settle();
  };
  motion.onMove(stop);
  link.on("silent", stop);
  signal.addEventListener("abort", stop);
  return { element, stop };
}

function buildKeyframe(fov, index, say) {
  const number = index + 1;
  return make(
    "li", {},
    makeButton({
      text: `${number} · ${Math.round(fov)}°`, title: `Go to keyframe ${number}`,
      name: "nerfmac-grow", onClick: () => say("go", index),
    }),
    makeButton({
      image: "again", title: `Replace keyframe ${number} with the current view`,
      onClick: () => say("replace", index),
    }),
    makeButton({
      image: "bin", title: `Remove keyframe ${number}`, onClick: () => say("remove", index),
    }),
  );
}

function buildFile(link) {
  const name = makeText({ label: "File of the path", value: "path.json" });
  name.classList.add("nerfmac-grow");
  const button = (kind, text, title) => makeButton({
    text, title, name: "nerfmac-plain",
    onClick: () => link.send({ kind, name: withEnding(name.value, ".json") }),
  });
  return make(
    "div", { class: "nerfmac-line" }, name, button("save", "Save", "Save the path"),
    button("load", "Load", "Load a path"),
  );
}
