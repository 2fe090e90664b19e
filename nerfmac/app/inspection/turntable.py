"""Interactive drawing of the cameras, points, and cube of a scene in a notebook."""

from __future__ import annotations

import json
from html import escape

from nerfmac.app.scenes import Scene, diagram

MAX_POINTS = 6000
"""Maximum number of points in the drawing. This limits the size of the notebook."""
PAGE = """<div><canvas width="900" height="560" style="width:100%;max-width:900px;cursor:grab;
border:1px solid #ddd;background:#fff;touch-action:none"></canvas><pre>{text}</pre><script>
(() => {{
const {{points, lines}} = {data};
const canvas = document.currentScript.parentElement.querySelector("canvas");
const pen = canvas.getContext("2d");
let turn = 0.6, tilt = 0.5, zoom = 1, held = null;
function place([x, y, z]) {{
  const c = Math.cos(turn), s = Math.sin(turn), u = x * c - y * s, v = x * s + y * c;
  const size = zoom * Math.min(canvas.width, canvas.height) / 2.9;
  return [canvas.width / 2 + size * u,
          canvas.height / 2 - size * (z * Math.cos(tilt) + v * Math.sin(tilt))];
}}
function draw() {{
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = "#96a5af";
  for (const point of points) {{ const [x, y] = place(point); pen.fillRect(x, y, 1.5, 1.5); }}
  for (const [color, ...ends] of lines) {{
    pen.strokeStyle = color; pen.beginPath();
    for (const end of ends) pen.lineTo(...place(end));
    pen.stroke();
  }}
}}
canvas.onpointerdown = (e) => {{
  held = [e.clientX, e.clientY];
  canvas.setPointerCapture(e.pointerId);
}};
canvas.onpointerup = () => {{ held = null; }};
canvas.onpointermove = (e) => {{
  if (!held) return;
  turn -= (e.clientX - held[0]) / 150;
  tilt = Math.min(Math.max(tilt + (e.clientY - held[1]) / 150, -1.57), 1.57);
  held = [e.clientX, e.clientY]; draw();
}};
canvas.onwheel = (e) => {{ e.preventDefault(); zoom *= Math.exp(-e.deltaY / 500); draw(); }};
draw();
}})();
</script></div>"""


def turntable(scene: Scene, text: str) -> str:
    """Return HTML with an interactive drawing of the cameras, points, cube, and up direction of a
    scene, and `text` below it."""
    points = diagram.points_shown(scene)
    points = points[:: max(1, -(-len(points) // MAX_POINTS))]
    lines = diagram.camera_lines(scene)
    lines += [(diagram.UPWARDS, diagram.up_line(scene)), (diagram.CUBE, diagram.cube_line(scene))]
    middle, size = diagram.shown(scene)
    data = {
        "points": ((points - middle) / size).round(4).tolist(),
        "lines": [
            [f"rgb({red},{green},{blue})", *((line - middle) / size).round(4).tolist()]
            for (red, green, blue), line in lines
        ],
    }
    return PAGE.format(text=escape(text), data=json.dumps(data).replace("</", "<\\/"))
