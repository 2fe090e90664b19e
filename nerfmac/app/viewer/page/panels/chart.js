/**
 * Curves of the training over steps or seconds: the loss on a logarithmic axis, and below it PSNR.
 *
 * Points are [step, seconds, loss, psnr]. If a value is null or not finite, the curve has a gap.
 */

import { make } from "../controls/controls.js";
import { digits, duration, grouped, logTicks, roundTicks, withPrefix } from "../controls/numbers.js";

const MARGIN = { left: 40, right: 8, top: 16, bottom: 16 };
const GAP = 22; // CSS pixels between the two plots
const HEIGHT = 180; // CSS pixels
const PLOTS = [
  { column: 2, title: "loss", isLog: true, color: "--nerfmac-brand" },
  { column: 3, title: "PSNR (dB)", isLog: false, color: "--nerfmac-second" },
];

export class Chart {
  constructor(signal) {
    this.points = [];
    this.axis = "steps";
    this.hovered = null; // the point under the pointer
    this.canvas = make("canvas", {
      class: "nerfmac-curve", role: "img", "aria-label": "Loss and PSNR during training",
    });
    this.readout = make("div", { class: "nerfmac-readout", "aria-live": "off" });
    this.line = make("div", { class: "nerfmac-line" }, this.readout);
    this.element = make("div", {}, this.canvas, this.line);
    const observer = new ResizeObserver(() => this.draw());
    observer.observe(this.canvas);
    signal.addEventListener("abort", () => observer.disconnect());
    this.canvas.addEventListener("pointermove", (event) => this.hover(event.offsetX));
    this.canvas.addEventListener("pointerleave", () => this.hover(null));
  }

  /** Append points, or replace all points. */
  add(points, isFresh) {
    this.points = isFresh ? [...points] : this.points.concat(points);
    this.draw();
  }

  /** Set the horizontal axis: "steps" or "seconds". */
  setAxis(axis) {
    this.axis = axis;
    this.draw();
  }

  get column() {
    return this.axis === "steps" ? 0 : 1;
  }

  /** Return [lowest, highest] value of the horizontal axis. */
  range() {
    const last = this.points.at(-1)[this.column];
    const first = this.points[0][this.column];
    return last > first ? [first, last] : [first - 0.5, first + 0.5];
  }

  across(value) {
    const [low, high] = this.range();
    const width = this.canvas.clientWidth - MARGIN.left - MARGIN.right;
    return MARGIN.left + ((value - low) / (high - low)) * width;
  }

  hover(x) {
    const far = (point) => Math.abs(this.across(point[this.column]) - x);
    const nearer = (best, point) => (far(point) < far(best) ? point : best);
    this.hovered = x === null || this.points.length === 0 ? null : this.points.reduce(nearer);
    this.draw();
  }

  draw() {
    const { canvas } = this;
    const ratio = window.devicePixelRatio;
    const width = canvas.clientWidth;
    this.write();
    if (width === 0) return; // its panel is closed
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(HEIGHT * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const style = getComputedStyle(canvas);
    const paint = (name) => style.getPropertyValue(name).trim();
    context.font = `10px ${style.fontFamily}`;
    const height = (HEIGHT - MARGIN.top - MARGIN.bottom - GAP) / 2;
    PLOTS.forEach((plot, row) => {
      const top = MARGIN.top + row * (height + GAP);
      this.drawPlot(context, plot, { top, height, width }, paint);
    });
    if (this.points.length > 0) this.drawAcross(context, width, paint);
  }

  drawPlot(context, plot, { top, height, width }, paint) {
    const values = this.points.map((point) => usable(point[plot.column], plot.isLog));
    const known = values.filter((value) => value !== null);
    context.fillStyle = paint(plot.color);
    context.textAlign = "left";
    context.textBaseline = "bottom";
    context.fillText(plot.title, MARGIN.left, top - 3);
    const scale = makeScale(known, plot.isLog);
    const down = (value) => top + height * (1 - scale.part(value));
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.lineWidth = 1;
    for (const tick of scale.ticks) {
      context.strokeStyle = paint("--nerfmac-line");
      strokeLine(context, MARGIN.left, down(tick), width - MARGIN.right, down(tick));
      context.fillStyle = paint("--nerfmac-muted");
      const text = plot.isLog ? powerText(tick) : digits(tick, 4);
      context.fillText(text, MARGIN.left - 5, down(tick));
    }
    context.strokeStyle = paint(plot.color);
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    this.trace(context, values, down);
    if (!this.hovered) return;
    const value = usable(this.hovered[plot.column], plot.isLog);
    const x = this.across(this.hovered[this.column]);
    context.strokeStyle = paint("--nerfmac-muted");
    context.lineWidth = 1;
    strokeLine(context, x, top, x, top + height);
    if (value === null) return;
    context.fillStyle = paint(plot.color);
    context.beginPath();
    context.arc(x, down(value), 3, 0, 2 * Math.PI);
    context.fill();
  }

  trace(context, values, down) {
    let isDown = false;
    context.beginPath();
    values.forEach((value, index) => {
      if (value === null) {
        isDown = false;
        return;
      }
      const [x, y] = [this.across(this.points[index][this.column]), down(value)];
      if (isDown) context.lineTo(x, y);
      else context.arc(x, y, 0.5, 0, 2 * Math.PI);
      isDown = true;
    });
    context.stroke();
  }

  drawAcross(context, width, paint) {
    const [low, high] = this.range();
    const inMinutes = this.axis === "seconds" && high > 300;
    const unit = inMinutes ? 60 : 1;
    context.fillStyle = paint("--nerfmac-muted");
    context.textBaseline = "top";
    context.textAlign = "center";
    for (const tick of roundTicks(low / unit, high / unit, Math.max(2, width / 55))) {
      const x = this.across(tick * unit);
      const text = this.axis === "steps" ? withPrefix(tick) : `${tick} ${inMinutes ? "min" : "s"}`;
      const half = context.measureText(text).width / 2;
      context.fillText(text, Math.min(x, width - half - 1), HEIGHT - MARGIN.bottom + 4);
    }
  }

  write() {
    const [step, seconds, loss, psnr] = this.hovered ?? [];
    const quality = `${digits(loss, 3)} · ${digits(psnr, 4)} dB`;
    const text = `step ${grouped(step)} · ${duration(seconds)} · ${quality}`;
    this.readout.textContent = this.hovered ? text : "";
  }
}

function usable(value, isLog) {
  return Number.isFinite(value) && (!isLog || value > 0) ? value : null;
}

/** {part(value), ticks} of an axis for `values`; `part` maps a value to a position in [0, 1]. */
function makeScale(values, isLog) {
  if (values.length === 0) return { part: () => 0, ticks: [] };
  let low = values.reduce((one, other) => Math.min(one, other));
  let high = values.reduce((one, other) => Math.max(one, other));
  if (isLog) {
    [low, high] = high > 1.2 * low ? [low / 1.1, high * 1.1] : [low / 2, high * 2];
    const span = Math.log(high / low);
    return { part: (value) => Math.log(value / low) / span, ticks: logTicks(low, high) };
  }
  const room = Math.max(0.06 * (high - low), 0.5);
  [low, high] = [low - room, high + room];
  return { part: (value) => (value - low) / (high - low), ticks: roundTicks(low, high, 3) };
}

function strokeLine(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

/** Format a power of ten such as 0.001 as "10⁻³", and other numbers such as 0.5 unchanged. */
function powerText(value) {
  const power = Math.log10(value);
  if (Math.abs(power - Math.round(power)) > 1e-6 || Math.abs(power) < 3) return digits(value, 2);
  const raised = (sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign] ?? "⁻";
  return `10${String(Math.round(power)).replace(/./g, raised)}`;
}
