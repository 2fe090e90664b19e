/**
 * The frame of the video over the image: what is outside of it is dark. The vertical field of view
 * of the video is that of the image, so a video that is wider than the image shows more at the sides.
 */

const OUTSIDE = "rgb(10 12 16 / 62%)";
const LABEL = "#ffffff";

export class Film {
  constructor() {
    this.size = [16, 9]; // width and height of the video in pixels
    this.isShown = false; // whether the path panel is open
    this.onChange = () => {};
  }

  get aspect() {
    return this.size[0] / this.size[1];
  }

  setSize(width, height) {
    if (this.size[0] === width && this.size[1] === height) return;
    this.size = [width, height];
    this.onChange();
  }

  get isBlank() {
    return !this.isShown;
  }

  draw(context, { rectangle: { left, top, width, height } }) {
    const wide = Math.min(height * this.aspect, width);
    const side = (width - wide) / 2;
    context.fillStyle = OUTSIDE;
    context.fillRect(left, top, side, height);
    context.fillRect(left + width - side, top, side, height);
    context.strokeStyle = "rgb(255 255 255 / 70%)";
    context.lineWidth = 1;
    context.strokeRect(left + side + 0.5, top + 0.5, wide - 1, height - 1);
    const isCut = height * this.aspect > width + 1;
    const text = `${this.size.join(" × ")}${isCut ? ", wider than this image" : ""}`;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = LABEL;
    context.shadowColor = "#000";
    context.shadowBlur = 4;
    context.fillText(text, left + side + 8, top + height - 8);
    context.shadowBlur = 0;
  }
}
