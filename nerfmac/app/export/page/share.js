/** The button that shares the page, in browsers with a share dialog (the Web Share API). */

import { makeButton } from "../../viewer/page/controls/controls.js";

/**
 * Create the button, or return null if the browser cannot share the page. A page from the web is
 * shared as a link, and a page from a file as a copy of the file. This function must be called
 * before the document changes.
 */
export function makeShareButton() {
  const content = contentToShare(document.title);
  if (!navigator.canShare?.(content)) return null;
  const share = () => navigator.share(content).catch((error) => {
    if (error.name !== "AbortError") console.info(`nerfmac: ${error}`); // the user may cancel
  });
  return makeButton({ image: "share", title: "Share", onClick: share });
}

function contentToShare(title) {
  if (location.protocol.startsWith("http")) return { title, url: location.href };
  if (!navigator.share) return {}; // the copy would be in vain
  const text = `<!DOCTYPE html>\n${document.documentElement.outerHTML}`;
  const name = decodeURIComponent(location.pathname.split("/").at(-1)) || "scene.html";
  return { title, files: [new File([text], name, { type: "text/html" })] };
}
