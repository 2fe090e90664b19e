/**
 * Overlay: lines over the frame (cameras, camera path, crop box), and hit tests for the pointer.
 *
 * The lines are drawn right after each frame, with the camera of the frame, and again whenever
 * the content of the overlay changes. During a comparison with a photo, the overlay is empty.
 */

import { make } from "../controls/controls.js";
import { Sight } from "./sight.js";

const MOST_AWAY = 20; // maximum factor of the distance to the center to show cameras
const NEAR = 0.01; // minimum depth of lines, as a fraction of the scene extent

export class Overlay {
  /** `lines` are layers under the frusta and the crop box that the pointer does not hit. */
  constructor({ canvas, area, image, link, frusta, cropBox, lines }) {
    Object.assign(this, { canvas, area, image, link, frusta, cropBox, lines });
    this.extent = 1;
    this.frame = 0;
    this.label = make("div", {});
    this.preview = make("canvas", { class: "nerfmac-preview" });
    this.tooltip = make(
      "div", { class: "nerfmac-tooltip", role: "tooltip", hidden: "" }, this.preview, this.label,
    );
    frusta.onChange = () => this.refresh();
    image.onDrawn(() => this.draw());
    link.on("cameras", () => this.refresh());
    link.on("state", ({ scene }) => {
      this.extent = scene.extent;
      this.refresh();
    });
  }

  /** The projection of the scene to the image, or null without an image or during a comparison. */
  sight() {
    const content = this.image.shown?.content;
    if (!content || typeof content.compared === "number") return null;
    const { area } = this;
    const rectangle = this.image.rectangle(area.clientWidth, area.clientHeight);
    const { pose, lens } = this.image.camera;
    return new Sight(pose, lens, rectangle, NEAR * this.extent);
  }

  /** Move away from the center until a camera is on the image, unless one is already. */
  revealCameras(motion) {
    const sight = this.sight();
    if (!sight || !motion.view || this.frusta.isBlank) return;
    const { pose, center } = motion.view;
    for (let away = 1; away < MOST_AWAY; away *= 1.25) {
      const moved = [...pose];
      [3, 7, 11].forEach((at, axis) => {
        moved[at] = center[axis] + away * (pose[at] - center[axis]);
      });
      if (this.frusta.isAnyOn(new Sight(moved, sight.lens, sight.rectangle, sight.near))) {
        if (away > 1) motion.jump({ ...motion.view, pose: moved });
        return;
      }
    }
  }

  /** Draw at the next animation frame. */
  refresh() {
    if (this.frame || this.link.isClosed) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  close() {
    cancelAnimationFrame(this.frame);
  }

  draw() {
    const { canvas, area } = this;
    const sight = this.sight();
    if (!sight) this.hover(null);
    this.frusta.legend.hidden = !sight || this.frusta.isBlank;
    const layers = [...this.lines, this.frusta, this.cropBox];
    const isBlank = !sight || layers.every((layer) => layer.isBlank);
    if (isBlank && canvas.hidden) return; // avoids a page layer of the image size
    canvas.hidden = isBlank;
    canvas.width = this.image.canvas.width;
    canvas.height = this.image.canvas.height;
    if (isBlank) return;
    const context = canvas.getContext("2d");
    const { left, top, width, height } = sight.rectangle;
    context.scale(canvas.width / area.clientWidth, canvas.height / area.clientHeight);
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    for (const layer of layers) {
      if (!layer.isBlank) layer.draw(context, sight);
    }
  }

  /** Highlight the camera or handle at `place`, or nothing if `place` is null (pointer outside). */
  hover(place) {
    const sight = place && this.sight();
    const handle = sight ? this.cropBox.find(place, sight) : null;
    const camera = sight && !handle ? this.frusta.find(place, sight) : null;
    const before = [this.frusta.hovered, this.cropBox.hovered?.axis, this.cropBox.hovered?.side];
    this.frusta.hovered = camera;
    this.cropBox.hovered = handle;
    this.area.dataset.over = handle ? "handle" : camera === null ? "" : "camera";
    this.tooltip.hidden = camera === null;
    if (camera !== null) this.name(camera, place);
    const after = [camera, handle?.axis, handle?.side];
    if (after.some((value, index) => value !== before[index])) this.refresh();
  }

  name(camera, { x, y }) {
    this.label.textContent = this.frusta.nameOf(camera);
    const photo = this.frusta.photos[camera];
    this.preview.hidden = !photo;
    if (photo) {
      Object.assign(this.preview, { width: photo.width, height: photo.height });
      this.preview.getContext("2d").drawImage(photo, 0, 0);
    }
    const isRight = x > this.area.clientWidth / 2;
    this.tooltip.style.left = isRight ? "auto" : `${x + 14}px`;
    this.tooltip.style.right = isRight ? `${this.area.clientWidth - x + 10}px` : "auto";
    const lowest = this.area.clientHeight - this.tooltip.offsetHeight - 4;
    this.tooltip.style.top = `${Math.max(Math.min(y - 26, lowest), 4)}px`;
  }

  /** {move(place), end()} for a drag that starts at `place`, or null if there is no handle. */
  press(place) {
    const sight = this.sight();
    const handle = sight && this.cropBox.find(place, sight);
    return handle ? this.cropBox.grab(handle, place, () => this.sight() ?? sight) : null;
  }

  /** Return whether a click hit a training camera. If so, the viewer moves to this camera. */
  click(place, time) {
    const sight = this.sight();
    const index = sight ? this.frusta.find(place, sight) : null;
    if (index === null) return false;
    this.link.send({ kind: "stand", index, t: time });
    return true;
  }
}
