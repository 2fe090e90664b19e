/** The video panel: rendering of the camera path to a video, and the finished video. */

import {
  bringIntoView, make, makeButton, makeJob, makeNumber, makeSelect, makeText,
} from "../controls/controls.js";
import { digits, duration, withEnding } from "../controls/numbers.js";

const AS_SHOWN = "as shown";

/**
 * Create the controls and the progress of the video, {element, seconds}: `seconds` is its length.
 * `film` shows the frame of the video, and `record.lastFrame` contains the size of the shown image.
 */
export function buildVideo({ link, settings, film, record, signal }) {
  let pace = null; // seconds per pixel
  let known = null; // length of the path in the kernel
  let named = null; // name of the run in the suggested file
  const name = makeText({ label: "File of the video", value: "" });
  name.classList.add("nerfmac-grow");
  const onChange = () => update();
  const length = makeNumber({ label: "Seconds of video", onChange });
  const rate = makeNumber({ label: "Frames per second", onChange });
  settings.limit("video_seconds", length);
  settings.limit("fps", rate);
  length.show(5);
  rate.show(24);
  const size = makeSelect({ label: "Size", choices: [[AS_SHOWN, AS_SHOWN]], onChange });
  const estimate = make("p", { class: "nerfmac-message" });
  const update = () => {
    const [width, height] = sizeOf(size.input.value, record.lastFrame);
    film.setSize(width, height);
    const frames = Math.max(1, Math.round(Number(length.input.value) * Number(rate.input.value)));
    const time = pace === null ? "" : `, about ${roughly(frames * width * height * pace)}`;
    estimate.textContent = `${frames} frame${frames === 1 ? "" : "s"}${time}`;
  };
  link.on("cameras", ({ sizes }) => {
    const texts = [...sizes.map((sides) => sides.join(" × ")), AS_SHOWN];
    if (texts.length === size.input.options.length) return; // a second page has opened
    size.input.replaceChildren(...texts.map((text) => make("option", { value: text, text })));
    size.show(texts[0]);
    update();
  });
  const start = makeButton({
    image: "video", text: "Render", title: "Render the video", name: "nerfmac-run",
    onClick: () => {
      if (!length.input.reportValidity() || !rate.input.reportValidity()) return;
      const [width, height] = sizeOf(size.input.value, record.lastFrame);
      link.send({
        kind: "video", name: withEnding(name.value, ".mp4"), seconds: Number(length.input.value),
        fps: Number(rate.input.value), width, height,
      });
    },
  });
  length.input.required = true;
  rate.input.required = true;
  const progress = makeJob({
    name: "video",
    toText: ({ done, total, left }) => {
      const rest = Number.isFinite(left) ? ` · ${duration(left)} left` : "";
      return `frame ${done} of ${total}${rest}`;
    },
    toFraction: ({ done, total }) => done / total,
    onCancel: () => link.send({ kind: "cancel" }),
  });
  link.on("state", ({ video, seconds, scene, pace: newPace }) => {
    if (scene.name !== named) name.value = `runs/${named = scene.name}.mp4`;
    start.hidden = estimate.hidden = video !== null;
    progress.show(video);
    if (seconds !== known && !length.isBusy()) length.show(Number(seconds.toFixed(2)));
    known = seconds;
    pace = newPace;
    update();
  });
  const unit = (text) => make("span", { text, class: "nerfmac-unit" });
  const element = make(
    "div", { class: "nerfmac-group" }, make("h3", { text: "Video" }),
    make("div", { class: "nerfmac-line" }, name),
    make(
      "div", { class: "nerfmac-line" }, length.element, unit("s at"), rate.element,
      unit("frames/s"),
    ),
    size.element, estimate, start, progress.element, buildResult(link, signal),
  );
  return { element, get seconds() { return Number(length.input.value) || known || 5; } };
}

/** Format an estimated duration without false precision, as in "40 s" or "3 min". */
function roughly(seconds) {
  if (seconds < 55) return `${seconds < 10 ? Math.ceil(seconds) : 5 * Math.round(seconds / 5)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${digits(seconds / 3600, 2)} h`;
}

function sizeOf(text, frame) {
  if (text !== AS_SHOWN) return text.split(" × ").map(Number);
  const even = (side) => Math.max(2, 2 * Math.floor(side / 2));
  return [even(frame?.width ?? 640), even(frame?.height ?? 480)];
}

/** The finished video with a download link. The next video revokes its object URL. */
function buildResult(link, signal) {
  const video = make("video", {
    controls: "", loop: "", playsinline: "", class: "nerfmac-video", "aria-label": "The video",
  });
  const save = make("a", { class: "nerfmac-download" });
  const element = make("div", { class: "nerfmac-group", hidden: "" }, save, video);
  let address = null;
  const free = () => {
    if (address) URL.revokeObjectURL(address);
  };
  link.on("video", ({ name }, [bytes]) => {
    free();
    address = URL.createObjectURL(new Blob([bytes], { type: "video/mp4" }));
    video.src = address;
    save.href = address;
    save.download = name;
    save.textContent = `Download ${name}`;
    element.hidden = false;
  });
  // The height of the video is known only now. If the user has scrolled to other cells, the page
  // does not scroll back.
  video.addEventListener("loadedmetadata", () => {
    const { top, bottom } = element.parentElement.getBoundingClientRect();
    if (top < window.innerHeight && bottom > 0) bringIntoView(element);
  });
  signal.addEventListener("abort", () => {
    video.removeAttribute("src");
    free();
  });
  return element;
}
