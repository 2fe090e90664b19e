/**
 * Comparison of a training photo with the frame rendered from its camera.
 *
 * The comparison begins when the photo that a frame refers to has arrived, and ends with the first
 * frame that refers to no photo. A canvas of the same size over the frame shows the part of the
 * photo to the right of a divider, the whole photo, nothing, or the amplified difference between
 * photo and frame.
 */

import { capturePointer, make, makeButton, makeChoice } from "../controls/controls.js";
import { decodeJpeg } from "./image.js";

const DOUBLINGS = 2; // number of times that the difference is doubled before it is shown
const STEP = 0.02; // movement of the divider per arrow key press, as a fraction of the width

/** [mode, text, title] of the ways to compare the rendering with `content`, such as "photo". */
function comparisonsWith(content) {
  const text = content[0].toUpperCase() + content.slice(1);
  return [
    ["split", "Split", `Rendering to the left of the divider, ${content} to the right`],
    ["difference", "Difference", "The difference of both, four times as strong"],
    ["rendered", "Rendered", "The rendered image alone"],
    ["photo", text, `The ${content} alone`],
  ];
}

export class Compare {
  constructor({ canvas, area, image, link, frusta, motion }) {
    Object.assign(this, { canvas, area, image, link, frusta });
    this.photo = null; // {bitmap, index, name}
    this.wanted = null; // index of the photo that arrived last
    this.rendered = null; // index of the photo whose rendering has arrived in full resolution
    this.mode = "split";
    this.split = 0.5;
    this.onBegin = () => {};
    this.build(motion);
    link.on("photo", (content, [jpeg]) => this.receive(content, jpeg));
    image.onDrawn(() => this.draw());
  }

  build(motion) {
    this.divider = make("div", {
      class: "nerfmac-divider", role: "slider", tabindex: 0, "aria-label": "Divider",
      "aria-valuemin": 0, "aria-valuemax": 100, title: "Drag the divider",
    });
    const corner = (text) => make("div", { class: "nerfmac-corner", text });
    this.corners = [corner("rendered"), corner("photo")];
    this.label = make("output", { class: "nerfmac-compared" });
    const choice = makeChoice({
      label: "Comparison", choices: comparisonsWith("photo"),
      onChange: (mode) => {
        this.mode = mode;
        this.draw();
      },
    });
    choice.show(this.mode);
    this.choice = choice;
    const button = (image, title, onClick) => makeButton({ image, title, onClick });
    const names = make(
      "div", { class: "nerfmac-line" },
      button("back", "Previous photo", () => this.go(-1)), this.label,
      button("next", "Next photo", () => this.go(1)),
    );
    const modes = make(
      "div", { class: "nerfmac-line" }, choice.element,
      button("close", "End the comparison", () => motion.stay()),
    );
    this.bar = make(
      "div", { class: "nerfmac-compare", role: "group", "aria-label": "Comparison" }, names, modes,
    );
    this.elements = [this.divider, ...this.corners, this.bar];
    this.listen();
  }

  listen() {
    const { divider } = this;
    let isHeld = false;
    const follow = (event) => {
      const box = this.area.getBoundingClientRect();
      const { left, width } = this.rectangle();
      this.moveTo((event.clientX - box.left - left) / width);
    };
    divider.addEventListener("pointerdown", (event) => {
      isHeld = true;
      capturePointer(divider, event);
    });
    divider.addEventListener("pointermove", (event) => isHeld && follow(event));
    for (const type of ["pointerup", "pointercancel", "lostpointercapture"]) {
      divider.addEventListener(type, () => (isHeld = false));
    }
    divider.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
      if (!step) return;
      event.preventDefault();
      this.moveTo(this.split + step);
    });
  }

  moveTo(split) {
    this.split = Math.min(1, Math.max(0, split));
    this.draw();
  }

  rectangle() {
    return this.image.rectangle(this.area.clientWidth, this.area.clientHeight);
  }

  /** Begin a comparison with the photo of the camera nearest to `pose`. */
  begin(pose) {
    const index = pose && this.frusta.nearest(pose);
    if (index === null) return;
    this.stand(index);
    this.onBegin();
  }

  go(step) {
    const count = this.frusta.cameras.length;
    if (count > 0) this.stand((this.photo.index + step + count) % count);
  }

  stand(index) {
    this.link.send({ kind: "stand", index, t: performance.now() });
  }

  async receive({ index, name, content = "photo" }, jpeg) {
    this.wanted = index;
    const bitmap = await decodeJpeg(jpeg);
    if (!bitmap || this.wanted !== index || this.link.isClosed) {
      bitmap?.close();
      return;
    }
    this.photo?.bitmap.close();
    this.photo = { bitmap, index, name };
    this.corners[1].textContent = content;
    this.choice.rename(comparisonsWith(content));
    this.rendered = null;
    this.draw();
  }

  draw() {
    const { canvas, photo } = this;
    const content = this.image.shown?.content;
    const isOn = photo !== null && photo.index === content?.compared;
    if (!isOn && canvas.hidden) return;
    canvas.hidden = !isOn;
    canvas.width = this.image.canvas.width;
    canvas.height = this.image.canvas.height;
    for (const element of this.elements) element.hidden = !isOn;
    if (!isOn) return;
    if (content.scale >= 1) this.rendered = photo.index;
    const quality = Number.isFinite(content.psnr) ? ` · ${content.psnr.toFixed(1)} dB` : "";
    this.label.textContent = `${photo.name}${this.isRendered ? quality : " · rendering …"}`;
    this.drawPhoto(this.image.rectangle(canvas.width, canvas.height));
    this.layOut();
  }

  get isRendered() {
    return this.rendered === this.photo.index;
  }

  /** The selected comparison. Until the rendering has full resolution, only the photo is shown. */
  get shownMode() {
    return this.isRendered ? this.mode : "photo";
  }

  drawPhoto({ left, top, width, height }) {
    const context = this.canvas.getContext("2d");
    const { shownMode: mode } = this;
    if (mode === "rendered") return;
    if (mode === "split") {
      context.beginPath();
      context.rect(left + this.split * width, top, (1 - this.split) * width, height);
      context.clip();
    } else if (mode === "difference") {
      context.drawImage(this.image.shown.bitmap, left, top, width, height);
      context.globalCompositeOperation = "difference";
    }
    context.drawImage(this.photo.bitmap, left, top, width, height);
    if (mode !== "difference") return;
    context.globalCompositeOperation = "lighter";
    for (let count = 0; count < DOUBLINGS; count += 1) context.drawImage(this.canvas, 0, 0);
  }

  layOut() {
    const { left, top, width, height } = this.rectangle();
    const { shownMode: mode } = this;
    const isSplit = mode === "split";
    this.divider.hidden = !isSplit;
    this.divider.setAttribute("aria-valuenow", Math.round(100 * this.split));
    const pixels = (value) => `${value}px`;
    Object.assign(this.divider.style, {
      left: pixels(left + this.split * width), top: pixels(top), height: pixels(height),
    });
    const areaWidth = this.area.clientWidth;
    this.corners[0].style.left = pixels(left + 10);
    this.corners[1].style.right = pixels(areaWidth - left - width + 10);
    this.corners[0].hidden = !(isSplit || mode === "rendered");
    this.corners[1].hidden = !(isSplit || mode === "photo");
  }

  close() {
    this.photo?.bitmap.close();
    this.photo = null;
  }
}
