/** The training panel: start and pause, limits, progress, curves, and settings of training. */

import { Chart } from "./chart.js";
import {
  make, makeButton, makeChoice, makeMore, makeNumber, makeProgress, makeSlider, makeToggle,
} from "../controls/controls.js";
import { icon } from "../controls/icons.js";
import { digits, duration, grouped } from "../controls/numbers.js";

const REFINED = [
  ["poses", "Poses", "Refine each camera's position and direction"],
  ["lenses", "Lenses", "Refine each camera's focal length and distortion"],
  ["exposures", "Exposures", "Refine each photo's brightness"],
  ["colors", "Colors", "Refine each photo's colors"],
];
const CANNOT = "This run was loaded without its photos: it can be viewed, not trained further.";

/** {panel, runButton, summary}: the panel, and the training button and text in the toolbar. */
export function buildTraining(link, settings, signal) {
  let training = null; // state of the training in the last message from the kernel
  const toggle = () => link.send({ kind: training?.is_running ? "pause" : "train" });
  const run = makeRunButton(toggle);
  const summary = make("span", { class: "nerfmac-summary" });
  const report = buildReport(link);
  const refine = buildRefine(link);
  const chart = new Chart(signal);
  const why = make("p", { class: "nerfmac-message", text: CANNOT, hidden: "" });
  const fields = make(
    "fieldset", { class: "nerfmac-group", "aria-label": "Training" },
    report.element,
    makeMore(
      report.details, chart.element, buildLimits(settings), buildSliders(settings), refine.element,
    ),
  );
  const axis = makeChoice({
    label: "Axis of the curves",
    choices: [
      ["steps", "steps", "Curves over steps"], ["seconds", "seconds", "Curves over seconds"],
    ],
    onChange: (value) => chart.setAxis(value),
  });
  axis.show("steps");
  chart.line.append(axis.element);
  link.on("curve", ({ fresh, points }) => chart.add(points, fresh));
  link.on("state", (state) => {
    training = state.training;
    why.hidden = training.can_train;
    fields.disabled = !training.can_train;
    run.show(training);
    report.show(state);
    refine.show(training);
    [summary.textContent, summary.title] = summarize(state);
  });
  return { panel: make("div", {}, why, fields), runButton: run.element, summary };
}

function makeRunButton(onClick) {
  const element = makeButton({
    image: "play", text: "Start", title: "Start training", name: "nerfmac-run", onClick,
  });
  const show = ({ is_running: isRunning, can_train: canTrain, step }) => {
    const text = isRunning ? "Pause" : step > 0 ? "Continue" : "Start";
    const title = `${text} training`;
    if (element.title !== title) {
      element.replaceChildren(icon(isRunning ? "pause" : "play"), make("span", { text }));
      element.title = title;
      element.setAttribute("aria-label", title);
    }
    element.disabled = !canTrain;
  };
  return { element, show };
}

/** [text, explanation] of the state of the training in a line. */
function summarize(state) {
  const { is_running: isRunning, message, step, psnr } = state.training;
  const verdict = verdictOn(state);
  if (message) return [message, ""];
  if (!isRunning && verdict[0]) return verdict;
  if (!isRunning && !step) return ["", ""];
  const quality = Number.isFinite(psnr) ? ` · ${psnr.toFixed(1)} dB in training` : "";
  return [`step ${grouped(step)}${quality}`, ""];
}

/** [text, explanation] of the quality of new views, and whether training has finished. */
function verdictOn({ training, held_out: heldOut, measured }) {
  const end = training.has_finished ? "Training has finished. " : "";
  if (measured) return [`${end}Comparing new views: ${measured.join(" of ")} …`, ""];
  if (heldOut?.step !== training.step) return [end.trim(), ""];
  return [
    `${end}New views: ${heldOut.word} (${qualityText(heldOut)})`,
    "Mean PSNR of renderings relative to photos that were not used for training, at step"
    + ` ${grouped(heldOut.step)}`,
  ];
}

/** Format the PSNR of held-out views, as in "25.0 dB, 9 held-out views" or "9 of 38 held-out". */
function qualityText({ psnr, views, of }) {
  const part = views < of ? `${views} of ${of}` : of;
  return `${psnr.toFixed(1)} dB, ${part} held-out view${of === 1 ? "" : "s"}`;
}

/** Progress bar and measurements of the training, and details of the measurements. */
function buildReport(link) {
  const bar = makeProgress("Progress of training");
  const message = make("p", { class: "nerfmac-message", role: "status" });
  const values = {};
  const gridOf = (names) => make("dl", { class: "nerfmac-numbers" }, ...names.map(([name, label]) => {
    values[name] = make("dd", { text: "–", "data-name": name });
    return make("div", {}, make("dt", { text: label }), values[name]);
  }));
  const grid = gridOf([["seconds", "time"], ["left", "left"]]);
  const details = gridOf([
    ["step", "step"], ["loss", "loss"], ["psnr", "training PSNR"], ["held-out", "held-out PSNR"],
  ]);
  const measure = makeButton({
    image: "again",
    title: "Measure PSNR on the held-out views. Training pauses until all of them are compared",
    name: "nerfmac-inline", onClick: () => link.send({ kind: "measure" }),
  });
  values["held-out"].after(measure);
  const show = (state) => {
    const { training, held_out: heldOut, measured } = state;
    bar.show(training.progress);
    [message.textContent, message.title] = verdictOn(state);
    if (training.message) message.textContent = training.message;
    values.step.textContent = grouped(training.step);
    values.seconds.textContent = duration(training.seconds);
    values.left.textContent = duration(training.left ?? NaN);
    values.loss.textContent = digits(training.loss ?? NaN, 3);
    const { psnr } = training;
    values.psnr.textContent = Number.isFinite(psnr) ? `${psnr.toFixed(1)} dB` : "–";
    const isOld = heldOut && heldOut.step !== training.step;
    const when = isOld ? `, at step ${grouped(heldOut.step)}` : "";
    const result = heldOut ? `${qualityText(heldOut)}${when}` : "–";
    values["held-out"].textContent = measured ? `comparing ${measured.join(" of ")} …` : result;
    measure.disabled = measured !== null || (heldOut && !isOld); // a second time is no better
  };
  return {
    element: make("div", { class: "nerfmac-group" }, bar.element, message, grid), details, show,
  };
}

/** Switches of the refinements. The switches are disabled after training has begun. */
function buildRefine(link) {
  const toggles = REFINED.map(([name, label, title]) => {
    const onChange = (on) => link.send({ kind: "refine", name, on });
    return [name, makeToggle({ label, title, onChange })];
  });
  const element = make(
    "fieldset", { class: "nerfmac-group", "aria-label": "Refined with the scene" },
    make("span", { text: "Refine with the scene", class: "nerfmac-label" }),
    ...toggles.map(([, toggle]) => toggle.element),
  );
  const show = ({ refine, is_running: isRunning, step }) => {
    element.disabled = isRunning || step > 0;
    element.title = element.disabled ? "Chosen before training begins" : "";
    for (const [name, toggle] of toggles) toggle.show(refine[name]);
  };
  return { element, show };
}

function buildLimits(settings) {
  const steps = settings.bind("steps", makeNumber({
    label: "Stop after steps", whole: true,
    title: "Total number of steps at which training stops. If empty, there is no limit",
    onChange: (value) => settings.set("steps", value),
  }));
  const seconds = settings.bind("seconds", makeNumber({
    label: "Stop after seconds",
    title: "Total training time at which training stops. If empty, there is no limit",
    onChange: (value) => settings.set("seconds", value),
  }));
  const unit = (text) => make("span", { text, class: "nerfmac-unit" });
  return make(
    "div", { class: "nerfmac-line" }, make("span", { text: "Stop after", class: "nerfmac-label" }),
    steps.element, unit("steps"), seconds.element, unit("s"),
  );
}

function buildSliders(settings) {
  const share = settings.bind("share", makeSlider({
    label: "Training share", step: 0.05,
    title: "Fraction of the device time for training. A lower value makes the viewer smoother",
    toText: (value) => `${Math.round(100 * value)} %`,
    onInput: (value) => settings.set("share", value),
  }));
  const rate = settings.bind("rate", makeSlider({
    label: "Learning rate", step: 0.05,
    title: "Factor for the learning rate. A higher value trains faster, but training may diverge",
    toPosition: Math.log10, toText: (value) => `× ${digits(value, 2)}`,
    toValue: (place) => Number((10 ** place).toPrecision(3)),
    onInput: (value) => settings.set("rate", value),
  }));
  const rays = settings.bind("rays", makeSlider({
    label: "Most rays a step", step: 1, hasNone: true,
    title: "Maximum number of rays per training step. At the right end, there is no limit",
    toPosition: Math.log2, toValue: (place) => 2 ** place, toText: grouped,
    onInput: (value) => settings.set("rays", value),
  }));
  return make("div", { class: "nerfmac-group" }, share.element, rate.element, rays.element);
}
