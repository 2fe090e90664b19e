/** The camera path over the image: keyframes as numbered frusta, and a line along the path. */

import { frustumLines } from "./frusta.js";
import { strokeRimmed, traceLines } from "./sight.js";

const KEYFRAME_SIZE = 0.05; // depth of a frustum, as a fraction of the scene's extent
const KEYFRAME_ASPECT = 16 / 9;
const PATH_COLOR = "#ffb454";

export class PathLine {
  constructor(link) {
    this.keyframes = [];
    this.path = [];
    this.extent = 1;
    this.isShown = true;
    link.on("state", ({ keyframes, path, scene }) => {
      Object.assign(this, { keyframes, path, extent: scene.extent });
    });
  }

  get isBlank() {
    return !this.isShown || this.keyframes.length === 0;
  }

  draw(context, sight) {
    if (this.isBlank) return;
    context.beginPath();
    traceLines(context, sight, this.path.slice(1).map((point, index) => [this.path[index], point]));
    strokeRimmed(context, PATH_COLOR, 1.5);
    context.font = "600 11px system-ui, sans-serif";
    this.keyframes.forEach((keyframe, index) => this.drawKeyframe(context, sight, keyframe, index));
  }

  drawKeyframe(context, sight, { pose, fov }, index) {
    const place = sight.point([pose[3], pose[7], pose[11]]);
    if (!place || place.depth < 2 * KEYFRAME_SIZE * this.extent) return; // the view is inside the frustum
    const high = 0.5 / Math.tan((fov * Math.PI) / 360);
    const lens = [high / KEYFRAME_ASPECT, high, 0.5, 0.5];
    context.beginPath();
    traceLines(context, sight, frustumLines(pose, lens, KEYFRAME_SIZE * this.extent));
    strokeRimmed(context, PATH_COLOR, 1.2);
    context.lineWidth = 3;
    context.strokeStyle = "rgb(0 0 0 / 60%)";
    context.fillStyle = PATH_COLOR;
    context.strokeText(index + 1, place.x + 6, place.y - 6);
    context.fillText(index + 1, place.x + 6, place.y - 6);
  }
}
