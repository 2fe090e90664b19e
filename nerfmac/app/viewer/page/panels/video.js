/** The video panel: rendering of the camera path to a video, and the finished video. */

import {
  bringIntoView, make, makeButton, makeNumber, makeProgress, makeSelect, makeText,
} from "../controls/controls.js";
import { duration, withEnding } from "../controls/numbers.js";

const SIZES = [
  "640 × 480", "1280 × 720", "1920 × 1080", "3840 × 2160", "1080 × 1080", "320 × 240",
];
const AS_SHOWN = "as shown";

/** Controls and progress of the video. `record.lastFrame` contains the size of the shown image. */
export function buildVideo(link, record, signal) {
  const name = makeText({ label: "File of the video", value: "video.mp4" });
  name.classList.add("nerfmac-grow");
  const length = makeNumber({ label: "Seconds of video", min: 0.1, max: 3600, onChange: () => {} });
  const rate = makeNumber({ label: "Frames per second", min: 1, max: 240, onChange: () => {} });
  length.show(4);
  rate.show(24);
  const size = makeSelect({
    label: "Size", choices: [...SIZES, AS_SHOWN].map((text) => [text, text]), onChange: () => {},
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
  const progress = buildVideoProgress(link);
  link.on("state", ({ video }) => {
    start.hidden = video !== null;
    progress.show(video);
  });
  const unit = (text) => make("span", { text, class: "nerfmac-unit" });
  return make(
    "div", { class: "nerfmac-group" }, make("h3", { text: "Video" }),
    make("div", { class: "nerfmac-line" }, name),
    make(
      "div", { class: "nerfmac-line" }, length.element, unit("s at"), rate.element,
      unit("frames/s"),
    ),
    size.element, start, progress.element, buildResult(link, signal),
  );
}

function sizeOf(text, frame) {
  if (text !== AS_SHOWN) return text.split(" × ").map(Number);
  const even = (side) => Math.max(2, 2 * Math.floor(side / 2));
  return [even(frame?.width ?? 640), even(frame?.height ?? 480)];
}

function buildVideoProgress(link) {
  const bar = makeProgress("Progress of the video");
  const text = make("span", { class: "nerfmac-message nerfmac-grow" });
  const cancel = makeButton({
    text: "Cancel", title: "Cancel the video", name: "nerfmac-plain",
    onClick: () => link.send({ kind: "cancel" }),
  });
  const line = make("div", { class: "nerfmac-line" }, text, cancel);
  const element = make("div", { class: "nerfmac-group", hidden: "" }, bar.element, line);
  const show = (video) => {
    element.hidden = video === null;
    if (video === null) return;
    const left = Number.isFinite(video.left) ? ` · ${duration(video.left)} left` : "";
    text.textContent = `frame ${video.done} of ${video.total}${left}`;
    bar.show(video.done / video.total, text.textContent);
  };
  return { element, show };
}

/** The finished video with a download link. The next video revokes its object URL. */
function buildResult(link, signal) {
  const video = make("video", {
    controls: "", loop: "", playsinline: "", class: "nerfmac-video", "aria-label": "The video",
  });
  const save = make("a", { class: "nerfmac-download" });
  const element = make("div", { class: "nerfmac-group", hidden: "" }, video, save);
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
