/**
 * Motion of the viewer's camera, accumulated between animation frames into one message.
 *
 * Pointer, keys and wheel may move it at once; each `hold`s it while it does. Messages have
 * `moving` set while anything holds it, and a last message has it cleared. A hold without travel
 * sends nothing: a click is no motion.
 */

function atRest() {
  return { orbit: [0, 0], pan: [0, 0], dolly: 0, walk: [0, 0, 0] };
}

export class Motion {
  constructor(link) {
    this.link = link;
    this.holders = new Set();
    this.travel = atRest();
    this.time = null; // time of the newest event not yet sent
    this.isTold = false; // whether the kernel has been told that the camera is moving
    this.beforeMessage = () => {}; // walking adds the time that its keys were held
    link.collect(() => this.message());
  }

  /** Add travel, any of orbit, pan, dolly and walk, of an event at `time`. */
  add({ orbit, pan, dolly = 0, walk }, time) {
    const sum = this.travel;
    for (const [total, part] of [[sum.orbit, orbit], [sum.pan, pan], [sum.walk, walk]]) {
      part?.forEach((value, axis) => (total[axis] += value));
    }
    sum.dolly += dolly;
    this.time = Math.max(this.time ?? 0, time);
    this.link.wake();
  }

  hold(source) {
    this.holders.add(source);
  }

  release(source) {
    this.holders.delete(source);
    if (this.holders.size === 0 && this.isTold) this.link.wake();
  }

  /** Send at the next animation frame that the camera is at rest, whatever has moved it. */
  settle() {
    this.isTold = true;
    this.link.wake();
  }

  /** Release all holds now, so that a view removed during a drag leaves nothing moving. */
  stop() {
    this.holders.clear();
    this.link.flush();
  }

  /** The motion not sent yet, as a message; null if there is none. */
  message() {
    this.beforeMessage();
    const isMoving = this.holders.size > 0;
    if (this.time === null && (isMoving || !this.isTold)) return null;
    const message = {
      kind: "move", t: this.time ?? performance.now(), moving: isMoving, ...this.travel,
    };
    this.travel = atRest();
    this.time = null;
    this.isTold = isMoving;
    return message;
  }
}
