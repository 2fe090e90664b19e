/** The camera path over the image: keyframes as numbered frusta, and a line along the path. */

import { frustumLines } from "./frusta.js";
import { strokeRimmed, traceLines } from "./sight.js";

const PATH_COLOR = "#ffb454";

export class PathLine {
  /** The frusta of the keyframes have the shape of the frame of `film`. */
  constructor(link, film) {
    this.film = film;
    this.keyframes = [];
    this.path = [];
    this.size = 1; // depth of a frustum in scene units
    this.isShown = true;
    this.isOpen = false; // whether the path panel is open, and moves are shown as well
    link.on("state", ({ keyframes, path, scene }) => {
      Object.assign(this, { keyframes, path, size: scene.frustum });
    });
  }

  get isBlank() {
    return !this.isShown || (this.keyframes.length === 0 && !(this.isOpen && this.path.length > 0));
  }

  draw(context, sight) {
    context.beginPath();
    traceLines(context, sight, this.path.slice(1).map((point, index) => [this.path[index], point]));
    strokeRimmed(context, PATH_COLOR, 1.5);
    context.font = "600 11px system-ui, sans-serif";
    this.keyframes.forEach((keyframe, index) => this.drawKeyframe(context, sight, keyframe, index));
  }

  drawKeyframe(context, sight, { pose, fov }, index) {
    const place = sight.point([pose[3], pose[7], pose[11]]);
    if (!place || place.depth < 2 * this.size) return; // the view is inside the frustum
    const high = 0.5 / Math.tan((fov * Math.PI) / 360);
    const lens = [high / this.film.aspect, high, 0.5, 0.5];
    context.beginPath();
    traceLines(context, sight, frustumLines(pose, lens, this.size));
    strokeRimmed(context, PATH_COLOR, 1.2);
    context.lineWidth = 3;
    context.strokeStyle = "rgb(0 0 0 / 60%)";
    context.fillStyle = PATH_COLOR;
    context.strokeText(index + 1, place.x + 6, place.y - 6);
    context.fillText(index + 1, place.x + 6, place.y - 6);
  }
}
