/** The view panel, for the content, the appearance, and the field of view of the image. */

import {
  make, makeButton, makeColor, makeMore, makeSelect, makeSlider, makeToggle,
} from "../controls/controls.js";

const VIEW_MODES = [
  ["color", "Color"], ["depth", "Depth"], ["normals", "Normals"], ["opacity", "Opacity"],
  ["occupancy", "Occupancy"], ["samples", "Samples per ray"],
];

const UP = [
  ["scene", "of the scene"], ["view", "of this view"], ["x", "+x"], ["-x", "−x"], ["y", "+y"],
  ["-y", "−y"], ["z", "+z"], ["-z", "−z"],
];

/** Create the panel. `seen` contains the layers over the frame, see main.js. */
export function buildView({ link, settings, seen, motion }) {
  const { frusta, pathLine, cropBox, compare, overlay } = seen;
  const toggle = (layer, label, title, onShown = () => {}) => {
    const onChange = (isShown) => {
      layer.isShown = isShown;
      if (isShown) onShown();
      overlay.refresh();
    };
    const control = makeToggle({ label, title, onChange });
    control.show(layer.isShown);
    return control.element;
  };
  const [often, rarely] = buildAppearance(link, settings, motion);
  const photo = makeButton({
    text: "Compare with nearest photo", title: "Compare with nearest photo",
    name: "nerfmac-plain", onClick: () => compare.begin(motion.view?.pose),
  });
  return make(
    "div", { class: "nerfmac-group" }, ...often, make("hr"),
    toggle(
      frusta, "Cameras", "Show the cameras and their photos. Click a camera to compare its photo",
      () => overlay.revealCameras(motion),
    ),
    toggle(pathLine, "Camera path", "Show the keyframes and the path through them"),
    cropBox.control.element, make("hr"), photo, makeMore(...rarely),
  );
}

/** Controls of the image, as [controls that are used often, controls that are used rarely]. */
function buildAppearance(link, settings, motion) {
  const set = (name) => (value) => settings.set(name, value);
  const fov = makeSlider({
    label: "Field of view", step: 1, onInput: (value) => motion.zoom((value * Math.PI) / 180),
    toText: (value) => `${Math.round(value)}°`,
  });
  settings.limit("fov", fov);
  motion.onGo = () => !fov.isBusy() && fov.show((motion.view.fov * 180) / Math.PI);
  const controls = {
    mode: makeSelect({ label: "Mode", choices: VIEW_MODES, onChange: set("mode") }),
    background: makeColor({ label: "Background", onInput: set("background") }),
    exposure: makeSlider({
      label: "Exposure", step: 0.1, onInput: set("exposure"),
      toText: (value) => `${value > 0 ? "+" : ""}${value.toFixed(1)} stops`,
    }),
  };
  controls.resolution = makeSlider({
    label: "Maximum resolution", step: 0.5, hasNone: true,
    title: "Maximum length of the longer side of the image. At the right end, there is no limit",
    toPosition: Math.log2, toValue: (place) => Math.round(2 ** place),
    toText: (value) => `${value} pixels`, onInput: set("resolution"),
  });
  controls.up = makeSelect({ label: "Up direction", choices: UP, onChange: set("up") });
  link.on("state", ({ scene }) => { // the outputs of the field are known when the page opens
    const known = [...controls.mode.input.options].map(({ value }) => value);
    for (const value of scene.extra_modes.filter((mode) => !known.includes(mode))) {
      const text = value.replace("extra:", "Output: ");
      controls.mode.input.append(make("option", { value, text }));
    }
  });
  for (const [name, control] of Object.entries(controls)) settings.bind(name, control);
  const { mode, background, exposure, resolution, up } = controls;
  return [[mode, fov], [background, exposure, resolution, up]].map((some) => some.map(({ element }) => element));
}
