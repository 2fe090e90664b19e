/**
 * The data of the page, in script elements that browsers do not execute. They contain JSON, shader
 * source code, or bytes. Bytes are compressed with gzip and encoded as base64.
 */

/** Return the text of block `name`. */
export function blockText(name) {
  return document.getElementById(name).textContent;
}

/** Return the bytes of block `name` as an ArrayBuffer. */
export async function blockBytes(name) {
  const stream = new Blob([fromBase64(blockText(name))]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let index = 0; index < letters.length; index += 1) bytes[index] = letters.charCodeAt(index);
  return bytes;
}

/** Convert the float16 values in `bytes` to a Float32Array. */
export function fromHalves(bytes) {
  const halves = new Uint16Array(bytes);
  return Float32Array.from(halves, (half) => {
    const exponent = (half >> 10) & 31;
    const fraction = half & 1023;
    const size = exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
    return half & 32768 ? -size : size;
  });
}
