/** Text of numbers and file names, and round values for the ticks of an axis. */

const PREFIXES = ["", "k", "M", "G", "T"];

/** Format a number with a prefix: 1234567 becomes "1.23 M". */
export function withPrefix(value) {
  if (!Number.isFinite(value)) return "–";
  let scaled = value;
  let power = 0;
  while (Math.abs(scaled) >= 999.5 && power < PREFIXES.length - 1) {
    scaled /= 1000;
    power += 1;
  }
  return `${Number(scaled.toPrecision(3))} ${PREFIXES[power]}`.trim();
}

/** Format an integer with thin spaces: 12345 becomes "12 345". */
export function grouped(value) {
  if (!Number.isFinite(value)) return "–";
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

/** Format a duration in seconds as "4.2 s", "1:05", or "2:00:07". */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const two = (value) => String(value).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** Format a number with a given number of significant digits, and null as a dash. */
export function digits(value, count) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(count))) : "–";
}

/** About `count` tick values in [low, high], spaced by 1, 2, or 5 times a power of ten. */
export function roundTicks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + 1e-9 * step; index += 1) {
    ticks.push(Number((index * step).toPrecision(12)));
  }
  return ticks;
}

/** Ticks of a logarithmic axis: powers of ten and, if these are few, 2 and 5 times the powers. */
export function logTicks(low, high) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const ticksOf = (factors) => {
    const ticks = [];
    for (let power = first; power <= last; power += 1) {
      for (const factor of factors) ticks.push(Number((factor * 10 ** power).toPrecision(3)));
    }
    return ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  };
  const powers = ticksOf([1]);
  return powers.length >= 2 ? powers : ticksOf([1, 2, 5]);
}

/** A file name with the given extension. */
export function withEnding(name, ending) {
  const trimmed = name.trim();
  return trimmed.toLowerCase().endsWith(ending) ? trimmed : `${trimmed}${ending}`;
}
