/**
 * Messages between page and kernel.
 *
 * `send` sends a message immediately. `later` sends it at the next animation frame and only if no
 * newer message has the same key, so dragging a slider sends one message per animation frame.
 * `send` first sends all messages that wait for the animation frame (see motion.js), so messages
 * have the order of their events.
 */

export class Link {
  /** After `signal` aborts, messages are neither sent nor received. */
  constructor(model, signal) {
    this.model = model;
    this.page = Math.random().toString(36).slice(2); // name of this page in all messages
    this.isLive = false; // whether a message from a kernel has arrived
    this.isAnswering = true; // see pulse.js
    this.heard = 0; // arrival time of the last message
    this.isClosed = false;
    this.handlers = new Map();
    this.waiting = new Map();
    this.collectors = [];
    this.frame = 0;
    const receive = (content, buffers) => this.receive(content, buffers ?? []);
    model.on("msg:custom", receive);
    signal.addEventListener("abort", () => {
      model.off("msg:custom", receive);
      cancelAnimationFrame(this.frame);
      this.isClosed = true;
    });
  }

  /**
   * Call `handler(content, buffers)` for each message of a kind, or for an event: "live" (the first
   * message of any kind), "silent" (the kernel has stopped answering), or "answering" (the kernel
   * answers again).
   */
  on(kind, handler) {
    this.handlers.set(kind, [...(this.handlers.get(kind) ?? []), handler]);
  }

  fallSilent() {
    this.isAnswering = false;
    this.tell("silent", {}, []);
  }

  receive(content, buffers) {
    if (content.page && content.page !== this.page) return; // for another page of the viewer
    this.heard = performance.now();
    if (!this.isAnswering) {
      this.isAnswering = true;
      this.tell("answering", {}, []);
    }
    if (!this.isLive) {
      this.isLive = true;
      this.tell("live", {}, []);
    }
    this.tell(content.kind, content, buffers);
  }

  tell(kind, content, buffers) {
    for (const handler of this.handlers.get(kind) ?? []) handler(content, buffers);
  }

  /**
   * Send `content` now, before waiting messages. Use this method for acknowledgments, because their
   * order is irrelevant. Before the first message from the kernel, only "ready" and "size" are sent.
   */
  post(content) {
    const isFirst = content.kind === "ready" || content.kind === "size";
    const isHeard = isFirst || (this.isLive && this.isAnswering);
    if (!isHeard || this.isClosed) return;
    try {
      this.model.send({ ...content, page: this.page });
    } catch {
      if (this.isLive) this.fallSilent(); // JupyterLab has detected the end of the kernel
    }
  }

  /** Send all waiting messages, and then `content`. */
  send(content) {
    this.flush(true);
    this.post(content);
  }

  /** Send `content` at the next animation frame, unless a newer message replaces it under `key`. */
  later(key, content) {
    this.waiting.delete(key);
    this.waiting.set(key, content);
    this.wake();
  }

  /** Return the message that waits under `key`, or undefined. */
  pending(key) {
    return this.waiting.get(key);
  }

  /** Call `collector(isUrgent)` at each flush. `collector` returns a message, or null to wait. */
  collect(collector) {
    this.collectors.push(collector);
  }

  /** Request a flush at the next animation frame. */
  wake() {
    if (this.frame || this.isClosed) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.flush();
    });
  }

  /** Send waiting messages. If `isUrgent`, send all of them, because another message follows. */
  flush(isUrgent = false) {
    const messages = [...this.waiting.values()];
    this.waiting.clear();
    for (const message of messages) this.post(message);
    for (const collector of this.collectors) {
      const message = collector(isUrgent);
      if (message) this.post(message);
    }
  }
}
