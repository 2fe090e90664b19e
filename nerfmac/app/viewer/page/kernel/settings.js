/**
 * Settings of the kernel, and the controls that show and change them.
 *
 * The kernel also sends the ranges of the controls. Every control that is bound to a setting shows the value in the kernel, except while the user is
 * changing the control. A value that was just sent is shown for ECHO_TIME, because older values
 * from the kernel may still arrive.
 */

const ECHO_TIME = 1000; // milliseconds that the kernel may take to answer
const RETRY_TIME = 250; // milliseconds until the page tries again to update a busy control

export class Settings {
  constructor(link, signal) {
    this.link = link;
    this.values = {};
    this.bound = new Map(); // name -> controls
    this.sent = new Map(); // name -> {value, timer}
    this.listeners = [];
    this.retry = 0; // timer that updates a control after the user has released it
    this.ranges = null; // lowest and highest value, by name
    this.unlimited = []; // [name, control] until the ranges have arrived
    link.on("ranges", ({ ranges }) => {
      this.ranges = ranges;
      for (const [name, control] of this.unlimited.splice(0)) this.limit(name, control);
    });
    link.on("state", ({ settings }) => this.receive(settings));
    signal.addEventListener("abort", () => {
      for (const { timer } of this.sent.values()) clearTimeout(timer);
      clearTimeout(this.retry);
    });
  }

  /** Give `control` the range `name` of the kernel. */
  limit(name, control) {
    if (this.ranges) control.limit(...this.ranges[name]);
    else this.unlimited.push([name, control]);
  }

  /** Make `control` show the setting `name` from now on. */
  bind(name, control) {
    if (control.limit) this.limit(name, control);
    this.bound.set(name, [...(this.bound.get(name) ?? []), control]);
    return control;
  }

  /** Call `listener(name, value)` when a setting changes on this page or in the kernel. */
  onChange(listener) {
    this.listeners.push(listener);
  }

  receive(settings) {
    for (const [name, value] of Object.entries(settings)) {
      const waiting = this.sent.get(name);
      if (waiting && !isSame(waiting.value, value)) {
        waiting.older = value;
        continue;
      }
      this.forget(name);
      this.show(name, value);
    }
  }

  /** Change a setting. The last value in each animation frame is sent to the kernel. */
  set(name, value) {
    const waiting = this.link.pending("set")?.values;
    this.link.later("set", { kind: "set", values: { ...waiting, [name]: value } });
    const older = this.forget(name)?.older ?? this.values[name];
    const timer = setTimeout(() => this.show(name, this.forget(name).older), ECHO_TIME);
    this.sent.set(name, { value, older, timer });
    this.show(name, value);
  }

  forget(name) {
    const waiting = this.sent.get(name);
    clearTimeout(waiting?.timer);
    this.sent.delete(name);
    return waiting;
  }

  show(name, value) {
    this.values[name] = value;
    for (const control of this.bound.get(name) ?? []) this.showIn(control, name);
    for (const listener of this.listeners) listener(name, value);
  }

  showIn(control, name) {
    if (!control.isBusy()) {
      control.show(this.values[name]);
    } else if (!this.sent.has(name)) {
      clearTimeout(this.retry);
      this.retry = setTimeout(() => this.showIn(control, name), RETRY_TIME);
    }
  }
}

function isSame(one, other) {
  if (typeof one === "number" && typeof other === "number") {
    return Math.abs(one - other) <= 1e-6 * Math.max(1, Math.abs(one));
  }
  return JSON.stringify(one) === JSON.stringify(other);
}
