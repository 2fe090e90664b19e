// A widget model without a kernel: `sent` contains the messages of the page, `say` sends one to it.

const handlers = new Map();
const decode = window.createImageBitmap.bind(window);

window.sent = [];
window.held = null; // if it is an array, decoded images wait in it, as functions
window.decoded = []; // every image so far; one that was closed has no width
window.still = "";

window.bytesOf = (encoded) => {
  const text = atob(encoded);
  return new DataView(Uint8Array.from(text, (sign) => sign.charCodeAt(0)).buffer);
};

window.createImageBitmap = async (blob) => {
  const bitmap = await decode(blob);
  window.decoded.push(bitmap);
  if (window.held) await new Promise((letGo) => window.held.push(letGo));
  return bitmap;
};

window.model = {
  get: (name) => (name === "still" ? window.bytesOf(window.still) : undefined),
  on: (name, handler) => handlers.set(name, [...(handlers.get(name) ?? []), handler]),
  off: (name, handler) => handlers.set(name, handlers.get(name).filter((one) => one !== handler)),
  send: (content) => {
    const { page, ...rest } = JSON.parse(JSON.stringify(content));
    window.page = page;
    window.sent.push(rest);
    // Otherwise, the page would be disabled as soon as a test takes longer than two seconds.
    if (content.kind === "ping") setTimeout(() => window.say({ kind: "pong" }, []));
  },
};

window.tell = (name, ...values) => {
  for (const handler of handlers.get(name) ?? []) handler(...values);
};
window.say = (content, encoded) => {
  window.tell("msg:custom", content, encoded.map(window.bytesOf));
};
window.listening = () => [...handlers.values()].flat().length;

window.start = async ({ width, height, still }) => {
  const { default: viewer } = await import("/page/main.js");
  const output = document.getElementById("output");
  window.endView?.();
  output.replaceChildren();
  output.style.width = width;
  document.getElementById("height").textContent =
    height ? `.nerfmac-floating { height: ${height}px !important }` : "";
  Object.assign(window, { sent: [], held: null, decoded: [], still });
  window.endView = viewer.render({ model: window.model, el: output });
};

// Read from a copy, because Chromium warns if the same canvas is read repeatedly.
window.pixelsOf = (layer, left, top, width, height) => {
  const copy = Object.assign(document.createElement("canvas"), { width, height });
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(document.querySelector(`canvas.nerfmac-${layer}`), -left, -top);
  return context.getImageData(0, 0, width, height);
};
window.pixelOf = (layer, x, y) => [...pixelsOf(layer, x, y, 1, 1).data];
