/**
 * What page and kernel say to each other.
 *
 * `send` speaks at once; `later` at the next animation frame, where the last word under a key is
 * the one that counts: a slider that is dragged sends one message a frame. Before `send`, whatever
 * has been accumulated for the frame (see motion.js) is sent, so that the order is the events'.
 */

export class Link {
  /** `signal` ends it: from then on nothing is sent or received. */
  constructor(model, signal) {
    this.model = model;
    this.isLive = false; // whether a kernel has said anything yet
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

  /** Call `handler(content, buffers)` for each message of a kind; "live" is the first of any. */
  on(kind, handler) {
    this.handlers.set(kind, [...(this.handlers.get(kind) ?? []), handler]);
  }

  receive(content, buffers) {
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
   * Say `content` now, without regard to what waits: for acks, which belong to no order. To a
   * kernel that has said nothing yet only the view's presence and size are told.
   */
  post(content) {
    const isHeard = this.isLive || content.kind === "ready" || content.kind === "size";
    if (isHeard && !this.isClosed) this.model.send(content);
  }

  /** Say `content` now, after what waits. */
  send(content) {
    this.flush(true);
    this.post(content);
  }

  /** Say `content` at the next animation frame, unless something else comes under `key`. */
  later(key, content) {
    this.waiting.delete(key);
    this.waiting.set(key, content);
    this.wake();
  }

  /** What waits under `key`, or undefined. */
  pending(key) {
    return this.waiting.get(key);
  }

  /** Call `collector(isUrgent)` at each flush; it returns a message, or null for none as yet. */
  collect(collector) {
    this.collectors.push(collector);
  }

  /** Ask for a flush at the next animation frame. */
  wake() {
    if (this.frame || this.isClosed) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.flush();
    });
  }

  /** Send what waits; all of it if that `isUrgent`, because something else comes behind it. */
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
