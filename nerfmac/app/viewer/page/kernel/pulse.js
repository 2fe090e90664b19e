/**
 * Whether the kernel is alive, and telling it whether the view is on screen.
 *
 * A kernel that is silent is sent a `ping`, which it answers even while a cell runs. Without an
 * answer the kernel has stopped or was restarted, or is too busy: the view then stands still until
 * there is another message.
 */

const WATCH_PERIOD = 250; // milliseconds between two looks at the clock
const LONGEST_SILENCE = 750; // milliseconds without a message after which the kernel is asked
const ANSWER_TIME = 2000; // milliseconds that it may take to answer

/** Keep `link.isAnswering` true or false; the link tells "answering" and "silent" of changes. */
export function watchKernel(link, signal) {
  let asked = null; // when the ping was sent that has not been answered
  const look = () => {
    const now = performance.now();
    if (!link.isLive || document.hidden) {
      asked = null; // a hidden page's timers are late
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
 * Tell the kernel when any of `area` comes on screen, and when nothing of it is left there. Returns
 * a function to call before the view ends.
 */
export function tellVisible(area, link, page, signal) {
  let isInWindow = true;
  let told = true;
  const tell = () => {
    const isVisible = isInWindow && !document.hidden;
    if (isVisible === told || !link.isLive || !link.isAnswering) return;
    told = isVisible;
    link.post({ kind: "visible", page, is_visible: isVisible });
  };
  const observer = new IntersectionObserver((entries) => {
    isInWindow = entries.at(-1).isIntersecting;
    tell();
  });
  observer.observe(area);
  document.addEventListener("visibilitychange", tell, { signal });
  link.on("live", tell);
  link.on("answering", tell);
  signal.addEventListener("abort", () => observer.disconnect());
  return () => {
    isInWindow = false;
    tell();
  };
}
