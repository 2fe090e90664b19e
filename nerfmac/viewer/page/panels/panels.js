/** The toolbar's buttons that open a panel beside the picture: one at a time, or none. */

import { make, makeButton } from "../controls/controls.js";

/** `panels`: [{name, label, picture, content}]. Returns the buttons and the panels. */
export function buildPanels(panels) {
  const opened = panels.map(({ name, label, picture, content }) => {
    const panel = make("section", {
      class: `nerfmac-panel nerfmac-panel-${name}`, "aria-label": label, hidden: "",
    }, make("h2", { text: label }), content);
    const button = makeButton({
      picture, text: label, title: `${label} panel`, name: "nerfmac-opens",
      onClick: () => open(panel.hidden ? panel : null),
    });
    button.setAttribute("aria-expanded", "false");
    return { panel, button };
  });
  const open = (chosen) => {
    for (const { panel, button } of opened) {
      panel.hidden = panel !== chosen;
      button.setAttribute("aria-expanded", String(panel === chosen));
    }
  };
  return {
    buttons: opened.map(({ button }) => button), panels: opened.map(({ panel }) => panel),
  };
}
