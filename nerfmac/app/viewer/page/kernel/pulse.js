/**
 * Detection of a kernel that has stopped, and messages about whether the view is on screen.
 *
 * If no message has arrived for a while, the page sends a `ping`. The kernel answers a `ping` even
 * while a cell runs. If there is no answer, the kernel has stopped, was restarted, or is too busy,
 * and the view does not change until another message arrives.
 */

const WATCH_PERIOD = 250; // milliseconds between two checks
const LONGEST_SILENCE = 750; // milliseconds without a message until a ping is sent
const ANSWER_TIME = 1700; // milliseconds that the kernel may take to answer a ping

/** Update `link.isAnswering`; the link emits "answering" and "silent" when it changes. */
export function watchKernel(link, signal) {
  let asked = null; // time of the ping that has not been answered
  const look = () => {
    const now = performance.now();
    if (!link.isLive || document.hidden) {
      asked = null; // not reliable, because browsers delay the timers of a hidden page
      return;
    }
    if (asked !== null && link.heard >= asked) asked = null;
    if (asked === null) {
      if (!link.isAnswering || now - link.heard < LONGEST_SILENCE) return;
      link.post({ kind: "ping" });
      asked = now;
    } else if (now - asked > ANSWER_TIME) {
      link.fallSilent();
      asked = null;
    }
  };
  const timer = setInterval(look, WATCH_PERIOD);
  signal.addEventListener("abort", () => clearInterval(timer));
}

/**
 * Notify the kernel when `area` becomes at least partly visible, when it becomes invisible, and when
 * the page is closed.
 */
export function tellVisible(area, link, signal) {
  let isInWindow = true;
  let told = true;
  const tell = () => {
    const isVisible = isInWindow && !document.hidden;
    if (isVisible === told || !link.isLive || !link.isAnswering) return;
    told = isVisible;
    link.post({ kind: "visible", is_visible: isVisible });
  };
  const observer = new IntersectionObserver((entries) => {
    isInWindow = entries.at(-1).isIntersecting;
    tell();
  });
  observer.observe(area);
  document.addEventListener("visibilitychange", tell, { signal });
  window.addEventListener("pagehide", () => link.post({ kind: "leave" }), { signal });
  link.on("live", tell);
  link.on("answering", tell);
  signal.addEventListener("abort", () => observer.disconnect());
}
