/**
 * Entry point of the page: it shows the field with WebGPU or, without WebGPU, the still image that
 * the page opens with. Modules of the viewer turn pointer, touch, and key input into moves.
 */

import { blockText } from "./blocks.js";
import { Flight } from "./flight.js";
import { Screen } from "./screen.js";
import { makeShareButton } from "./share.js";
import { Tracer, readField } from "./tracer.js";
import { makeButton } from "../../viewer/page/controls/controls.js";
import { walkByKeys } from "../../viewer/page/motion/keys.js";
import { PointerInput } from "../../viewer/page/motion/pointer.js";
import { toggleFullScreen, watchSize } from "../../viewer/page/stage.js";

const AGAIN = 1000; // milliseconds until a GPU that has stopped is tried again

const HINT_TIME = 8000; // milliseconds until the hint fades, unless the user moves the view earlier
const NO_WEBGPU = "This is a still image, because this browser does not support WebGPU. Use Chrome or"
  + " Edge on a computer, or Safari on macOS 26 or iOS 26 or later.";
const NOT_SECURE = "This is a still image, because browsers support WebGPU only for pages over https or"
  + " from disk, and this page was loaded over http.";
const GPU_STOPPED = "This is a still image, because WebGPU does not work in this browser at the moment.";

async function openScene() {
  const scene = JSON.parse(blockText("scene"));
  const area = document.getElementById("image");
  const flight = new Flight(scene.view, scene.path);
  const { signal } = new AbortController(); // never aborted
  const look = ({ x, y }) => flight.lookThrough(x / area.clientWidth, y / area.clientHeight);
  const nothing = () => null;
  new PointerInput(area, flight, { look, press: nothing, hover: nothing, click: nothing }, signal);
  walkByKeys(area, flight, () => flight.reset(), signal);
  watchSize(area, (width, height) => flight.resize(width, height), signal);
  addButtons(flight);
  fadeHint(area, flight);
  area.focus({ preventScroll: true });
  document.body.nerfmac = { flight }; // for end-to-end tests
  await showBest(area, scene, flight);
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (flight.screen && !isCalm) flight[scene.path ? "play" : "sway"]();
}

/** Show the scene in the best available way. If the GPU stops, try the next way. */
async function showBest(area, scene, flight, ways = waysToShow(scene)) {
  while (ways.length) {
    const way = ways.shift();
    const canvas = document.createElement("canvas"); // a canvas cannot change its context type
    const screen = await attempt(() => way(canvas));
    if (!screen) continue;
    canvas.style.visibility = "hidden"; // the still image is visible until the first image
    screen.onShown(() => (canvas.style.visibility = ""));
    area.append(canvas);
    tell("field");
    flight.begin(screen);
    screen.tracer?.device.lost.then(({ message }) => {
      console.info(`nerfmac: the GPU has stopped: ${message}`);
      screen.close();
      canvas.remove(); // the still image behind the canvas is visible again
      flight.screen = null;
      setTimeout(() => showBest(area, scene, flight, ways), AGAIN);
    });
    return;
  }
  flight.screen = null;
  tell("still");
}

/** Functions `create(canvas)` for showing the scene, in order. A GPU that stops is tried again. */
function waysToShow(scene) {
  let field = null; // data of the field, which are read only once
  const trace = async (canvas) => {
    if (!navigator.gpu) return null;
    field ??= await readField(scene);
    const tracer = await Tracer.create(canvas, scene, field);
    return tracer && new Screen(tracer, canvas, scene.side);
  };
  return [trace, trace];
}

function tell(kind) {
  document.body.dataset.shows = kind;
  document.getElementById("note").textContent = kind === "still" ? whatIsMissing() : "";
}

function whatIsMissing() {
  if (navigator.gpu) return GPU_STOPPED;
  return window.isSecureContext ? NO_WEBGPU : NOT_SECURE;
}

/** Fade out the hint when the page is first touched, or after HINT_TIME. */
function fadeHint(area, flight) {
  const fade = () => (document.body.dataset.hint = "faded");
  const touch = () => (fade(), flight.touch());
  for (const type of ["pointerdown", "wheel", "keydown"]) {
    area.addEventListener(type, touch, { once: true, passive: true });
  }
  setTimeout(fade, HINT_TIME);
}

async function attempt(create) {
  try {
    return await create();
  } catch (error) {
    console.info(`nerfmac: ${error}`);
    return null;
  }
}

function addButtons(flight) {
  const bar = document.getElementById("buttons");
  const share = makeShareButton(); // before the buttons are added
  if (flight.path) {
    const name = "nerfmac-play";
    const play = makeButton({
      image: "play", title: "Play the camera path", name, onClick: () => flight.play(),
    });
    const pause = makeButton({
      image: "pause", title: "Pause", name, onClick: () => flight.stop(),
    });
    const showPlaying = (isPlaying) => {
      play.hidden = isPlaying;
      pause.hidden = !isPlaying;
    };
    flight.onPlay = showPlaying;
    showPlaying(false);
    bar.append(play, pause);
  }
  if (share) bar.append(share);
  bar.append(
    makeButton({ image: "home", title: "First view (R)", onClick: () => flight.reset() }),
    makeButton({
      image: "expand", title: "Full screen",
      onClick: () => toggleFullScreen(document.documentElement),
    }),
  );
}

openScene();
