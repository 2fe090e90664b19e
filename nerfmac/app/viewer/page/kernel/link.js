/**
 * Messages between page and kernel.
 *
 * `send` sends at once. `later` sends at the next animation frame, and only the last message with
 * the same key: a slider that is dragged sends one message per frame. `send` first sends everything
 * that waits for the frame (see motion.js), so messages keep the order of their events.
 */

export class Link {
  /** After `signal` aborts, messages are neither sent nor received. */
  constructor(model, signal) {
    this.model = model;
    this.isLive = false; // whether a message from a kernel has arrived
    this.isAnswering = true; // see pulse.js
    this.heard = 0; // when the last message arrived
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
   * Call `handler(content, buffers)` for messages of a kind. "live": at the first of any kind;
   * "silent": when the kernel stops answering; "answering": when it answers again.
   */
  on(kind, handler) {
    this.handlers.set(kind, [...(this.handlers.get(kind) ?? []), handler]);
  }

  fallSilent() {
    this.isAnswering = false;
    this.tell("silent", {}, []);
  }

  receive(content, buffers) {
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
   * Send `content` now, before waiting messages. This is for acknowledgments, because their order
   * is irrelevant. Until the first message from the kernel, only "ready" and "size" are sent.
   */
  post(content) {
    const isFirst = content.kind === "ready" || content.kind === "size";
    const isHeard = isFirst || (this.isLive && this.isAnswering);
    if (!isHeard || this.isClosed) return;
    try {
      this.model.send(content);
    } catch {
      if (this.isLive) this.fallSilent(); // JupyterLab has seen the kernel end
    }
  }

  /** Send `content` now, after the messages that wait. */
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

  /** The message that waits under `key`, or undefined. */
  pending(key) {
    return this.waiting.get(key);
  }

  /** Call `collector(isUrgent)` at each flush; it returns a message, or null to wait. */
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

  /** Send waiting messages. `isUrgent`: send all of them, because another message follows. */
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
