/**
 * The page of `nerfmac view`: the widget with a WebSocket instead of a notebook kernel.
 *
 * The page sends JSON. A message from the server is one binary frame: the length of a header as
 * uint32, the header {content, sizes} as JSON, and the buffers, one after another.
 */

const FIRST_PAUSE = 1000; // milliseconds until the page tries to connect again
const LONGEST_PAUSE = 30_000; // the pause doubles with each attempt, up to this value
const TEXTS = {
  waiting: "The scene is being loaded.",
  stopped: "nerfmac view has ended or does not answer. If you start it again, open the new"
    + " address that it prints.",
};

// `files` is the address of an exported file in the local network, with {name}, or null.
const [source, files] = JSON.parse(document.getElementById("source").textContent);
const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
const { default: viewer } = await import(address);
let { state: place } = history; // view of this page, also after the page is loaded again
history.replaceState(place, "", location.pathname); // the token is now in a cookie
addEventListener("pagehide", () => history.replaceState(place, ""));

function connect() {
  const handlers = new Map();
  const socket = new WebSocket(`${location.protocol.replace("http", "ws")}//${location.host}/messages`);
  socket.binaryType = "arraybuffer";
  const model = {
    get: (name) => ({ texts: TEXTS, place: place ?? undefined, isServed: true, files })[name],
    on: (name, handler) => handlers.set(name, [...(handlers.get(name) ?? []), handler]),
    off: (name, handler) => {
      handlers.set(name, (handlers.get(name) ?? []).filter((each) => each !== handler));
    },
    send: (content) => {
      const { kind, pose, center, fov } = content;
      if (pose && ["move", "went"].includes(kind)) place = { pose, center, fov };
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(content));
    },
  };
  socket.addEventListener("message", ({ data }) => {
    const length = new DataView(data).getUint32(0, true);
    const { content, sizes } = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
    let at = 4 + length;
    const buffers = sizes.map((size) => new DataView(data, (at += size) - size, size));
    for (const handler of handlers.get("msg:custom") ?? []) handler(content, buffers);
  });
  return { model, socket };
}

/** Show the viewer until the connection ends, and then again as soon as there is another. */
function show(el, remove = () => {}, pause = FIRST_PAUSE) {
  const { model, socket } = connect();
  let [end, wait] = [remove, pause];
  socket.addEventListener("open", () => {
    remove();
    end = viewer.render({ model, el });
    wait = FIRST_PAUSE;
  });
  socket.addEventListener("close", () => {
    setTimeout(() => show(el, end, Math.min(2 * wait, LONGEST_PAUSE)), wait);
  });
}

show(document.getElementById("viewer"));
