/** The path panel: keyframes, playback of the camera path, and its file. */

import {
  make, makeButton, makeMore, makeNumber, makeSelect, makeSlider, makeText,
} from "../controls/controls.js";
import { icon } from "../controls/icons.js";
import { digits, withEnding } from "../controls/numbers.js";
import { buildVideo } from "./video.js";

const MOVES = [
  ["keyframes", "through keyframes"], ["orbit", "orbit"], ["spiral", "spiral"],
  ["figure-of-eight", "figure of eight"],
  ["train", "along the photos"], ["test", "along the test views"],
];

/**
 * Create the panel, {element, toggle}: `toggle(isOpen)` must be called when it is opened or closed.
 * Closing ends the playback. `film` is the frame of the video over
 * the image, and `badge` an element over the image. main.js describes `record`.
 */
export function buildPath({ link, settings, motion, film, badge, record, signal }) {
  const say = (action, index, more = {}) => link.send(
    index === undefined ? { kind: "keyframe", action } : { kind: "keyframe", action, index, ...more },
  );
  const list = make("ol", { class: "nerfmac-keyframes", "aria-label": "Keyframes" });
  const empty = make("p", {
    class: "nerfmac-message",
    text: "Without keyframes, the path is an orbit.",
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
  const video = buildVideo({ link, settings, film, record, signal });
  const scrub = makeSlider({
    label: "Along the path", step: 0.001,
    toText: (value) => `${digits(value * video.seconds, 2)} of ${digits(video.seconds, 3)} s`,
    onInput: (at) => {
      play.stop();
      go(at);
    },
  });
  scrub.input.addEventListener("change", () => motion.settle());
  scrub.element.classList.add("nerfmac-grow");
  scrub.show(0);
  const play = buildPlay({ link, motion, video, scrub, go, badge, signal });
  let shown = null;
  link.on("state", ({ keyframes, move, closed }) => {
    play.isClosed = closed;
    if (document.activeElement !== moves.input) moves.show(move);
    empty.hidden = keyframes.length > 1 || move !== "keyframes";
    list.hidden = keyframes.length === 0;
    clear.disabled = keyframes.length === 0;
    const now = JSON.stringify([keyframes, video.seconds]);
    if (now === shown) return; // the list is unchanged, so an element in it keeps the focus
    shown = now;
    list.replaceChildren(...keyframes.map((keyframe, index) => {
      const before = keyframes[index - 1]?.time;
      return buildKeyframe(keyframe, index, (keyframe.time - before) * video.seconds, say, settings);
    }));
  });
  const element = make(
    "div", { class: "nerfmac-group" }, moves.element,
    make("div", { class: "nerfmac-line" }, play.element, scrub.element), empty, list,
    make("div", { class: "nerfmac-line" }, add, clear), makeMore(buildFile(link)),
    make("hr"), video.element,
  );
  const toggle = (isOpen) => {
    if (!isOpen) play.stop();
  };
  return { element, toggle };
}

/**
 * Create the button that plays the path as the video will show it, until the user presses the button
 * again or moves the camera, or until the end of an open path. The playback starts at the position
 * of the slider `scrub`. `go(at)` moves the camera to a position on the path. While the path plays,
 * `badge` shows the time.
 */
function buildPlay({ link, motion, video, scrub, go, badge, signal }) {
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
    const lap = 1000 * video.seconds;
    const begun = performance.now() - lap * (Number(scrub.input.value) % 1);
    const step = (now) => {
      frame = requestAnimationFrame(step);
      const passed = Math.max(now - begun, 0) / lap;
      const at = play.isClosed ? passed % 1 : Math.min(passed, 1);
      scrub.show(at);
      badge.textContent = `Playing · ${(at * video.seconds).toFixed(1)} s`;
      go(at);
      if (at === 1) stop();
    };
    frame = requestAnimationFrame(step);
    badge.hidden = false;
    show("pause", "Pause");
  };
  const stop = () => {
    if (!frame) return;
    cancelAnimationFrame(frame);
    frame = 0;
    badge.hidden = true;
    show("play", "Play");
    motion.settle();
  };
  motion.onMove(stop);
  link.on("silent", stop);
  signal.addEventListener("abort", stop);
  const play = { element, stop, isClosed: true };
  return play;
}

/** A keyframe in the list. Without a time of its own, it has `seconds` after the previous keyframe. */
function buildKeyframe({ fov, seconds: own }, index, seconds, say, settings) {
  const number = index + 1;
  const time = makeNumber({
    label: `Seconds to keyframe ${number}`,
    title: `Seconds from keyframe ${index} to keyframe ${number}. If empty, the camera moves at an`
      + " even speed",
    onChange: (value) => say("time", index, { seconds: value }),
  });
  settings.limit("video_seconds", time);
  time.show(own);
  time.input.placeholder = digits(seconds, 2);
  const unit = make("span", { text: "s", class: "nerfmac-unit" });
  return make(
    "li", {},
    makeButton({
      text: `${number} · ${Math.round(fov)}°`, title: `Go to keyframe ${number}`,
      name: "nerfmac-grow", onClick: () => say("go", index),
    }),
    ...(index > 0 ? [time.element, unit] : []),
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
  const name = makeText({ label: "File of the path", value: "" });
  let named = null; // name of the run in the suggested file
  link.on("state", ({ scene }) => {
    if (scene.name !== named) name.value = `runs/${named = scene.name}-path.json`;
  });
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
