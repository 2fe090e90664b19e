/** Buttons that save the run or a screenshot. */

import { makeButton } from "../controls/controls.js";

/** Create the buttons. `image` is the image on screen. */
export function buildKeep(link, image) {
  let name = "scene";
  link.on("state", ({ scene }) => (name = scene.name));
  const screenshot = async () => {
    const blob = await image.toBlob();
    const address = URL.createObjectURL(blob);
    const anchor = document.createElement("a");
    Object.assign(anchor, { href: address, download: `${name}.png` });
    anchor.click();
    URL.revokeObjectURL(address);
  };
  return [
    makeButton({
      image: "disk", title: "Save the run in the folder runs",
      onClick: () => link.send({ kind: "save_run", name: `runs/${name}` }),
    }),
    makeButton({ image: "camera", title: "Download a screenshot", onClick: screenshot }),
  ];
}
