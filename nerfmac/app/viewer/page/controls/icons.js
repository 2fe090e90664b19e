/** Icons of the viewer: strokes on a grid of 16 x 16, in the color of the surrounding text. */

const STROKES = {
  play: "M5 3.2v9.6l7.6-4.8z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  home: "M2.5 8 8 3l5.5 5M4 7v6h3V9.5h2V13h3V7",
  expand: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  chart: "M2.5 2.5v11h11M4.5 10.5l2.7-3.5 2.3 2L13 4",
  eye: "M1.5 8S4 3.8 8 3.8 14.5 8 14.5 8 12 12.2 8 12.2 1.5 8 1.5 8zM8 6.2a1.8 1.8 0 1 0 0 3.6"
    + " 1.8 1.8 0 0 0 0-3.6z",
  path: "M3 13c5 0 1-9 5.5-9H13M10.8 1.8 13 4l-2.2 2.2",
  close: "M4 4l8 8M12 4l-8 8",
  back: "M10 3 5 8l5 5",
  next: "M6 3l5 5-5 5",
  plus: "M8 3v10M3 8h10",
  again: "M13 8a5 5 0 1 1-1.6-3.7M13.2 2v3h-3",
  bin: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.6 8.5h5.8l.6-8.5",
  disk: "M2.5 2.5h9l2 2v9h-11zM5 2.5v4h6v-4M5 13.5v-4h6v4",
  save: "M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13.5h10",
  page: "M3.5 2h6l3 3v9h-9zM9.5 2v3h3",
  share: "M8 10V2.5M5.2 5 8 2.2 10.8 5M5 7.5H3.5v6h9v-6H11",
  camera: "M2.5 5h2.7l1-1.8h3.6l1 1.8h2.7v8h-11zM8 6.8a2.1 2.1 0 1 0 0 4.2 2.1 2.1 0 0 0 0-4.2z",
  video: "M2.5 3.5h11v9h-11zM5.5 3.5v9M10.5 3.5v9M2.5 8h3M10.5 8h3",
};

const SVG = "http://www.w3.org/2000/svg";

/** An `svg` element that is hidden from screen readers, because they read its button instead. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const stroke = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "nerfmac-icon");
  svg.setAttribute("aria-hidden", "true");
  stroke.setAttribute("d", STROKES[name]);
  svg.append(stroke);
  return svg;
}
