"""A user's script, as `mypy --strict` checks it."""

from pathlib import Path

import mlx.core as mx
import numpy as np

import nerfmac
from nerfmac.app.export import extract_mesh
from nerfmac.app.video import render_video
from nerfmac.config import override
from nerfmac.config.presets import PRESETS
from nerfmac.config.rendering import RenderOptions, VideoOptions


class Ball(nerfmac.Field):
    """A gray ball with density as its only parameter."""

    @property
    def parameter_specs(self) -> dict[str, nerfmac.ParameterSpec]:
        return {"density": nerfmac.ParameterSpec((1,))}

    def init(self, key: mx.array) -> dict[str, mx.array]:
        return {"density": mx.ones(1)}

    def density_at(self, parameters: dict[str, mx.array], position: mx.array) -> mx.array:
        inside = mx.linalg.norm(position - 0.5, axis=1) < 0.25
        return mx.where(inside, parameters["density"], 0.0)

    def __call__(
        self, parameters: dict[str, mx.array], samples: nerfmac.Samples, rays: nerfmac.Rays
    ) -> nerfmac.FieldOutput:
        density = self.density_at(parameters, samples.position)
        return nerfmac.FieldOutput(density, mx.full((density.size, 3), 0.5))


def show(report: nerfmac.Report) -> None:
    print(report.state.step, report.loss)


scene = nerfmac.load_scene("lego", split=8)
config = override(PRESETS["small"], train={"steps": 100}, seed=3)
run = nerfmac.train(
    scene, config=config, method=nerfmac.Method(Ball), on_report=show, out=Path("run")
)
best: nerfmac.ViewQuality = max(run.evaluate(), key=lambda view: view.psnr)
mean: float = run.evaluate("test").psnr
lens = nerfmac.Lens.from_fov(0.7, 640, 480)
camera = nerfmac.Camera.look_at((2.0, 0.5, 0.5), np.full(3, 0.5), (0, 0, 1), lens)
rendered = run.render(camera)
depth: float = float(rendered.depth.max())
path = nerfmac.CameraPath([nerfmac.Keyframe(camera.pose, fov=0.7)], closed=True)
render_video(
    run, path.cameras(24, (640, 480)), "video.mp4", RenderOptions(), VideoOptions(fps=24.0)
)
extract_mesh(run, resolution=64).save("mesh.ply")
