/** Toolbar buttons that open a panel next to the image. At most one panel is open at a time. */

import { bringIntoView, make, makeButton } from "../controls/controls.js";

/**
 * Create the buttons and the panels from [{name, label, image, content, onToggle}]. Returns the
 * buttons, the panels, and a function `close` that closes the open panel. `onToggle(isOpen)` is
 * called when a panel is opened or closed.
 */
export function buildPanels(panels) {
  const opened = panels.map(({ name, label, image, content, onToggle }) => {
    const panel = make("section", {
      class: `nerfmac-panel nerfmac-panel-${name}`, "aria-label": label, hidden: "",
    }, make("h2", { text: label }), content);
    const button = makeButton({
      image, text: label, title: `${label} panel`, name: "nerfmac-opens",
      onClick: () => open(panel.hidden ? panel : null),
    });
    button.setAttribute("aria-expanded", "false");
    return { panel, button, onToggle };
  });
  const open = (chosen) => {
    for (const { panel, button, onToggle } of opened) {
      if (panel.hidden === (panel === chosen)) onToggle?.(panel === chosen);
      panel.hidden = panel !== chosen;
      button.setAttribute("aria-expanded", String(panel === chosen));
      if (panel !== chosen) continue;
      bringIntoView(button); // a panel below the image moves the buttons
      bringIntoView(panel);
    }
  };
  return {
    buttons: opened.map(({ button }) => button), panels: opened.map(({ panel }) => panel),
    close: () => open(null),
  };
}
