/**
 * The page of a scene, put together: the field by WebGPU, else its mesh by WebGL 2, else the still
 * that the page opens with. The viewer's own modules turn pointer, fingers and keys into moves.
 */

import { blockText } from "./blocks.js";
import { Flight } from "./flight.js";
import { MeshScreen } from "./mesh.js";
import { Screen } from "./screen.js";
import { Tracer, readField } from "./tracer.js";
import { makeButton } from "../../viewer/page/controls/controls.js";
import { walkByKeys } from "../../viewer/page/motion/keys.js";
import { PointerInput } from "../../viewer/page/motion/pointer.js";
import { toggleFullScreen, watchSize } from "../../viewer/page/stage.js";

const AGAIN = 1000; // milliseconds after which a GPU that has stopped is asked again, once

const NOTES = {
  mesh: "This browser has no WebGPU: the page shows the scene's surface, without its fine detail.",
  still: "This browser has neither WebGPU nor WebGL 2: the page shows a still picture.",
};

async function openScene() {
  const scene = JSON.parse(blockText("scene"));
  const area = document.getElementById("picture");
  const flight = new Flight(scene.view, scene.path);
  const { signal } = new AbortController(); // the page lives as long as its document
  const look = ({ x, y }) => flight.lookThrough(x / area.clientWidth, y / area.clientHeight);
  const nothing = () => null;
  new PointerInput(area, flight, { look, press: nothing, hover: nothing, click: nothing }, signal);
  walkByKeys(area, flight, () => flight.reset(), signal);
  watchSize(area, (width, height) => flight.resize(width, height), signal);
  addButtons(flight);
  area.focus({ preventScroll: true });
  document.body.nerfmac = { flight }; // what end-to-end tests read
  await showBest(area, scene, flight);
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (scene.path && flight.screen && !isCalm) flight.play();
}

/** Show the scene in the best way that works; should the GPU stop, in the next best. */
async function showBest(area, scene, flight, ways = waysToShow(scene)) {
  while (ways.length) {
    const way = ways.shift();
    const canvas = document.createElement("canvas"); // it has one kind of context for ever
    const screen = await attempt(() => way.create(canvas));
    if (!screen) continue;
    area.append(canvas);
    tell(way.shows);
    flight.begin(screen);
    screen.tracer?.device.lost.then(({ message }) => {
      console.info(`nerfmac: the GPU has stopped: ${message}`);
      screen.close();
      canvas.remove(); // the still is behind it
      flight.screen = null;
      setTimeout(() => showBest(area, scene, flight, ways), AGAIN);
    });
    return;
  }
  flight.screen = null;
  tell("still");
}

/** [{shows, create(canvas)}]: ways to show the scene, the best first, and twice: a GPU may stop. */
function waysToShow(scene) {
  let field = null; // read once
  const trace = async (canvas) => {
    if (!navigator.gpu) return null;
    field ??= await readField(scene);
    const tracer = await Tracer.create(canvas, scene, field);
    return tracer && new Screen(tracer, canvas);
  };
  return [
    { shows: "field", create: trace },
    { shows: "field", create: trace },
    { shows: "mesh", create: (canvas) => MeshScreen.create(canvas, scene) },
  ];
}

function tell(kind) {
  document.body.dataset.shows = kind;
  document.getElementById("note").textContent = NOTES[kind] ?? "";
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
  if (flight.path) {
    const name = "nerfmac-play";
    const play = makeButton({
      picture: "play", title: "Play the camera path", name, onClick: () => flight.play(),
    });
    const pause = makeButton({
      picture: "pause", title: "Pause", name, onClick: () => flight.stop(),
    });
    const showPlaying = (isPlaying) => {
      play.hidden = isPlaying;
      pause.hidden = !isPlaying;
    };
    flight.onPlay = showPlaying;
    showPlaying(false);
    bar.append(play, pause);
  }
  bar.append(
    makeButton({ picture: "home", title: "First view (R)", onClick: () => flight.reset() }),
    makeButton({
      picture: "expand", title: "Full screen",
      onClick: () => toggleFullScreen(document.documentElement),
    }),
  );
}

openScene();
