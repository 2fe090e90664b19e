/**
 * Moving the camera with keys while the image has the focus.
 *
 * The keys W and S (or up and down) move forward and backward, A and D (or left and right) move
 * sideways, Q and E move down and up, and R returns to the initial view. Keys are identified by
 * their physical positions, so WASD has the same positions on all keyboard layouts. The distance
 * depends on how long a key is held and not on key repeats.
 *
 * `motion` is an object of motion.js, or another object with `add`, `hold`, `release`, `wake`, and
 * `beforeMessage`. For R, `onReset(time)` is called.
 */

const STEPS = { // right, up, forward
  KeyW: [0, 0, 1], ArrowUp: [0, 0, 1], KeyS: [0, 0, -1], ArrowDown: [0, 0, -1],
  KeyD: [1, 0, 0], ArrowRight: [1, 0, 0], KeyA: [-1, 0, 0], ArrowLeft: [-1, 0, 0],
  KeyE: [0, 1, 0], KeyQ: [0, -1, 0],
};

const LONGEST_STRIDE = 0.25; // maximum seconds per step, so that a blocked page does not jump

export function walkByKeys(area, motion, onReset, signal) {
  const held = new Set();
  let since = 0;

  const stride = () => {
    if (held.size === 0) return;
    const now = performance.now();
    const seconds = Math.min((now - since) / 1000, LONGEST_STRIDE);
    since = now;
    const walk = [0, 0, 0];
    for (const code of held) STEPS[code].forEach((part, axis) => (walk[axis] += part * seconds));
    motion.add({ walk }, now);
  };
  motion.beforeMessage = stride; // while a key is held, it requests the next frame

  const letGo = (codes) => {
    stride();
    for (const code of codes) held.delete(code);
    if (held.size === 0) motion.release("keys");
  };

  area.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || motion.isSilent) return;
    if (event.code === "KeyR" && !event.repeat) onReset(event.timeStamp);
    if (event.code in STEPS && !held.has(event.code)) {
      if (held.size === 0) since = performance.now();
      else stride();
      held.add(event.code);
      motion.hold("keys");
      motion.wake();
    }
    if (event.code === "KeyR" || event.code in STEPS) event.preventDefault();
  }, { signal });
  area.addEventListener("keyup", (event) => {
    if (held.has(event.code)) letGo([event.code]);
  }, { signal });
  area.addEventListener("blur", () => letGo([...held]), { signal });
  window.addEventListener("blur", () => letGo([...held]), { signal });
}
