/** The export panel: a page, a mesh, points, or the cameras of the scene as a file. */

import { make, makeButton, makeSelect, makeText } from "../controls/controls.js";
import { withEnding } from "../controls/numbers.js";
import { makeExportJob, makeLinks } from "./files.js";

const CROPPED = " Only the part inside the crop box is exported.";
const KINDS = {
  page: {
    label: "web page", ending: ".html", about: "One file to send to others, who explore the scene in"
      + " their browsers.",
  },
  mesh: {
    label: "mesh", ending: ".glb", about: "Surfaces for Blender and other programs. The file"
      + " extension can also be .ply or .obj.",
  },
  points: { label: "point cloud", ending: ".ply", about: "Points on surfaces, with colors and normals." },
  cameras: {
    label: "cameras", ending: ".json", about: "All cameras as a transforms.json, after refinement.",
  },
};

/** Create the content of the panel. */
export function buildExport(link) {
  let scene = "scene";
  let isCropped = false;
  const kind = makeSelect({
    label: "Format", choices: Object.entries(KINDS).map(([name, { label }]) => [name, label]),
    onChange: () => suggest(),
  });
  const name = makeText({ label: "File of the export", value: "" });
  name.classList.add("nerfmac-grow");
  const about = make("p", { class: "nerfmac-message" });
  const explain = () => {
    const isWhole = kind.input.value === "cameras" || !isCropped;
    about.textContent = KINDS[kind.input.value].about + (isWhole ? "" : CROPPED);
  };
  const suggest = () => {
    name.value = `runs/${scene}${KINDS[kind.input.value].ending}`;
    explain();
  };
  const start = makeButton({
    image: "page", text: "Export", title: "Export the scene to the file", name: "nerfmac-run",
    onClick: () => {
      const { value } = kind.input;
      const hasEnding = /\.\w+$/.test(name.value.trim());
      const file = hasEnding ? name.value.trim() : withEnding(name.value, KINDS[value].ending);
      link.send({ kind: "export", what: value, name: file });
    },
  });
  const progress = makeExportJob(link);
  let shown = null;
  const done = make("p", { class: "nerfmac-message nerfmac-exported", role: "status" });
  link.on("state", (state) => {
    const isNew = state.scene.name !== scene;
    isCropped = state.settings.crop !== null;
    scene = state.scene.name;
    if (isNew || !name.value) suggest();
    else explain();
    start.hidden = state.export !== null;
    progress.show(state.export);
    const file = state.exported;
    if (file?.path === shown) return; // an unchanged link keeps the focus
    shown = file?.path;
    const saved = file && make("span", { text: `Saved ${file.path} (${file.size})` });
    done.replaceChildren(...(file ? [saved, ...makeLinks(link.model, file)] : []));
  });
  return make(
    "div", { class: "nerfmac-group" }, kind.element, make("div", { class: "nerfmac-line" }, name),
    about, start, progress.element, done,
  );
}
