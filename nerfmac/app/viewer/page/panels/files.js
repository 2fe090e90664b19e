/** Links to files that the viewer has exported, and the panel that shares the scene. */

import { make, makeButton, makeJob } from "../controls/controls.js";
import { icon } from "../controls/icons.js";

const HOW = "Start nerfmac view with --lan to share.";

/** Return the address of an exported file on this page's server, or null. */
function addressOf(model, { name, path, home }) {
  if (model.get("isServed")) return `files/${encodeURIComponent(name)}`;
  const config = document.getElementById("jupyter-config-data"); // of JupyterLab
  const { serverRoot, baseUrl } = config ? JSON.parse(config.textContent) : {};
  const root = serverRoot?.replace(/^~/, home).replace(/\/$/, "");
  if (!root || !path.startsWith(`${root}/`)) return null;
  return `${baseUrl}files${path.slice(root.length).split("/").map(encodeURIComponent).join("/")}`;
}

/** Create the links that open and download an exported file. */
export function makeLinks(model, file) {
  const href = addressOf(model, file);
  if (href === null) return [];
  const load = make("a", { href, download: file.name, class: "nerfmac-download" });
  load.append(icon("save"), ` Download ${file.name}`);
  if (!file.name.endsWith(".html")) return [load];
  const open = make("a", { href, target: "_blank", text: "Open", class: "nerfmac-download" });
  return [open, load];
}

/** Create the progress and the button that cancels the export. */
export function makeExportJob(link) {
  return makeJob({
    name: "export",
    toText: ({ name: file, stage, done: part }) => `${file}: ${stage} ${Math.round(100 * part)} %`,
    toFraction: ({ done: part }) => part,
    onCancel: () => link.send({ kind: "cancel_export" }),
  });
}

/** Create the panel that exports the scene as a page and shows the address of the page. */
export function buildShare(link) {
  const template = link.model.get("files"); // address of a file in the local network
  if (!template) return make("p", { class: "nerfmac-message", text: HOW });
  let scene = null;
  let shown = null;
  const about = make("p", {
    class: "nerfmac-message", text: "Export a page and show its address in the local network."
      + " Everyone with the address can also use this viewer. Over http, browsers show a still image"
      + " of the page; to explore the scene, download the page or open the viewer.",
  });
  const start = makeButton({
    image: "share", text: "Share", title: "Export a page and show its address",
    name: "nerfmac-run",
    onClick: () => link.send({ kind: "export", what: "page", name: `runs/${scene}.html` }),
  });
  start.hidden = true; // until the name of the scene is known
  const progress = makeExportJob(link);
  const code = make("img", { class: "nerfmac-code", alt: "QR code of the address" });
  const address = make("a", { class: "nerfmac-download", target: "_blank" });
  const live = make("a", { class: "nerfmac-download", target: "_blank", text: "Open the viewer" });
  live.href = template.replace("files/{name}", "");
  const result = make("div", { class: "nerfmac-group", hidden: "" }, code, address, live);
  const show = async (name) => {
    address.href = address.textContent = template.replace("{name}", encodeURIComponent(name));
    code.src = await (await fetch(`codes/${encodeURIComponent(name)}`)).text();
  };
  link.on("state", (state) => {
    scene = state.scene.name;
    start.hidden = state.export !== null;
    progress.show(state.export);
    const name = state.exported?.name;
    result.hidden = !name?.endsWith(".html");
    if (result.hidden || name === shown) return;
    shown = name;
    show(name);
  });
  return make("div", { class: "nerfmac-group" }, about, start, progress.element, result);
}
