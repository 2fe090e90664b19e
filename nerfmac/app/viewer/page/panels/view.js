/** The view panel, for the content, the appearance, and the field of view of the image. */

import {
  make, makeButton, makeColor, makeMore, makeSelect, makeSlider, makeToggle,
} from "../controls/controls.js";

const VIEW_MODES = [
  ["color", "Color"], ["depth", "Depth"], ["normals", "Normals"], ["opacity", "Opacity"],
  ["occupancy", "Occupancy"], ["samples", "Samples per ray"],
];

/** Create the panel. `seen` contains the layers over the frame, see main.js. */
export function buildView({ settings, seen, motion }) {
  const { frusta, pathLine, cropBox, compare, overlay } = seen;
  const toggle = (layer, label, title) => {
    const onChange = (isShown) => {
      layer.isShown = isShown;
      overlay.refresh();
    };
    const control = makeToggle({ label, title, onChange });
    control.show(layer.isShown);
    return control.element;
  };
  const [often, rarely] = buildAppearance(settings);
  const photo = makeButton({
    text: "Compare with photo", title: "Stand in the nearest training camera",
    name: "nerfmac-plain", onClick: () => compare.begin(motion.view?.pose),
  });
  return make(
    "div", { class: "nerfmac-group" }, ...often, make("hr"),
    toggle(frusta, "Training cameras", "Show the training cameras and their photos. Red cameras have the largest"
      + " error in training. Click a camera to compare its photo"),
    toggle(pathLine, "Camera path", "Show the keyframes and the path through them"),
    cropBox.control.element, make("hr"), photo, makeMore(...rarely),
  );
}

/** Controls of the image, as [controls that are used often, controls that are used rarely]. */
function buildAppearance(settings) {
  const set = (name) => (value) => settings.set(name, value);
  const controls = {
    mode: makeSelect({ label: "Mode", choices: VIEW_MODES, onChange: set("mode") }),
    background: makeColor({ label: "Background", onInput: set("background") }),
    fov: makeSlider({
      label: "Field of view", min: 10, max: 120, step: 1, onInput: set("fov"),
      toText: (value) => `${Math.round(value)}°`,
    }),
    exposure: makeSlider({
      label: "Exposure", min: -4, max: 4, step: 0.1, onInput: set("exposure"),
      toText: (value) => `${value > 0 ? "+" : ""}${value.toFixed(1)} stops`,
    }),
  };
  for (const [name, control] of Object.entries(controls)) settings.bind(name, control);
  const { mode, background, fov, exposure } = controls;
  return [[mode, fov], [background, exposure]].map((some) => some.map(({ element }) => element));
}
