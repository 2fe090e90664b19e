"""A field is one function of parameters, samples, and rays, wherever it is evaluated."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

import nerfmac
from nerfmac import EncodedField, FieldOutput, Goal, InputError, Method, ParameterSpec, Run
from nerfmac.app.run import resume
from nerfmac.config import override
from nerfmac.fields.encodings import HashGrid
from nerfmac.geometry import Viewpoints
from nerfmac.sampling.occupancy import MarchingSampler
from nerfmac.training.resolve import settled
from nerfmac.training.trainer import Trainer
from tests.scene_factory import CONFIG, HEIGHT, WIDTH, write_scene

pytestmark = pytest.mark.usefixtures("on_the_cpu")


class Wrapped(nerfmac.Field):
    """A field that only forwards to the configured field."""

    def __init__(self, config, bounds):
        self.base = EncodedField.of(config, bounds)

    parameter_specs = property(lambda self: self.base.parameter_specs)

    def init(self, key):
        return self.base.init(key)

    def __call__(self, parameters, samples, rays):
        return self.base(parameters, samples, rays)


class WrappedDensity(Wrapped):
    def density(self, parameters, samples, rays):
        return self.base.density(parameters, samples, rays)


def without_alpha(folder):
    write_scene(folder)
    for path in folder.rglob("*.png"):
        Image.open(path).convert("RGB").save(path)
    return nerfmac.load_scene(folder)


@pytest.mark.parametrize("preset", ["tiny", "small"])
@pytest.mark.parametrize("has_alpha", [True, False])
def test_a_field_that_only_forwards_trains_the_same_bits(scene, tmp_path, preset, has_alpha):
    scene = scene if has_alpha else without_alpha(tmp_path)
    assert scene.has_alpha == has_alpha
    methods = Method(), Method(field=Wrapped), Method(field=WrappedDensity)
    runs = [
        nerfmac.train(scene, preset, Goal(steps=20), method=method, progress=False)
        for method in methods
    ]
    assert runs[0].config.networks.density_bias == (2 if has_alpha else 0)
    plain, *others = (run.state.arrays() for run in runs)
    for other in others:
        assert plain.keys() == other.keys()
        for name, values in plain.items():
            assert np.array(values).tobytes() == np.array(other[name]).tobytes(), name


def test_a_field_and_a_sampler_are_created_once_from_the_configuration_of_the_run(scene):
    calls = []

    def field(config, bounds):
        calls.append((config, bounds))
        return Wrapped(config, bounds)

    def sampler(config, bounds, field):
        calls.append((config, bounds))
        assert isinstance(field, Wrapped)
        return MarchingSampler(config.march, config.occupancy, bounds, field.density)

    config = override(CONFIG, grid={"finest": None}, refine={"exposures": None})
    method = Method(field=field, sampler=sampler)
    run = nerfmac.train(scene, config, Goal(steps=2), method=method, progress=False)
    run.copy()
    assert calls == [(run.config, scene.bounds)] * 2
    values = [run.config.grid.finest, run.config.march.near, run.config.refine.exposures]
    assert None not in values


class Dense(Wrapped):
    """A field whose density pass uses another density than its rendering."""

    factor = 1.0

    def density(self, parameters, samples, rays):
        density = self.base.density(parameters, samples, rays)
        return density * self.other(samples, rays)


def other_densities():
    return {
        "a fifth": lambda samples, rays: 0.2,
        "twice": lambda samples, rays: 2.0,
        "distance": lambda samples, rays: mx.exp(-samples.distance),
        "interval": lambda samples, rays: 1.0 + 10.0 * samples.width,
        "cone": lambda samples, rays: 1.0 + 20.0 * rays.radius[samples.ray],
        "view": lambda samples, rays: 1.0 + rays.view[samples.ray],
        "progress": lambda samples, rays: rays.train_frac,
    }


@pytest.mark.parametrize("name", other_densities())
def test_a_density_that_is_not_rendered_is_refused_and_the_larger_one_is_named(scene, name):
    class Different(Dense):
        other = staticmethod(other_densities()[name])

    smaller = name in ("a fifth", "distance", "progress")
    larger = "__call__" if smaller else "density"
    with pytest.raises(InputError, match=rf"but that of Different\.{larger} is larger"):
        Run.begin(scene, CONFIG, method=Method(field=Different))


def test_a_density_that_differs_only_after_training_is_found_before_training_goes_on(scene):
    class Fading(Dense):
        def other(self, samples, rays):
            return is_same[0]

    is_same = [1.0]
    run = Run.begin(scene, CONFIG, method=Method(field=Fading))
    is_same[0] = 0.5
    with pytest.raises(InputError, match="Fading"):
        resume(run, Goal(steps=1), progress=False)


def test_a_density_that_depends_on_features_is_compared_with_parameters_that_matter(scene):
    """With its initial table, a hash grid has the same density nearly everywhere."""

    class Faded(HashGrid):
        def __call__(self, parameters, samples, rays):
            return super().__call__(parameters, samples, rays) * factor[0]

    class Half(Wrapped):
        def __init__(self, config, bounds):
            self.base = EncodedField(Faded(config.grid, bounds), config.networks)

        def density(self, parameters, samples, rays):
            factor[0] = 0.5
            density = self.base.density(parameters, samples, rays)
            factor[0] = 1.0
            return density

    factor = [1.0]
    with pytest.raises(InputError, match="Half"):
        Run.begin(scene, CONFIG, method=Method(field=Half))


class Known(nerfmac.Field):
    """A dense ball that returns what it knows about its rays and samples."""

    extras = {"known": 5}  # noqa: RUF012
    parameter_specs = {"nothing": ParameterSpec((1,))}  # noqa: RUF012

    def init(self, key):
        return {"nothing": mx.zeros(1)}

    def __call__(self, parameters, samples, rays):
        away = mx.linalg.norm(samples.position - 0.5, axis=1)
        density = 1e3 * mx.sigmoid(200.0 * (0.3 - away))
        view, radius = rays.view[samples.ray], 100.0 * rays.radius[samples.ray]
        frac = mx.broadcast_to(rays.train_frac, view.shape)
        known = mx.stack([view, radius, frac, samples.distance, 100.0 * samples.width], axis=1)
        color = 0.5 + 0.0 * samples.position + parameters["nothing"]
        return FieldOutput(density, color, {"known": known.astype(mx.float32)})


def test_a_field_knows_the_view_the_cone_the_interval_and_the_progress_in_training(scene):
    found = []

    def check(rays, target):
        view, radius, frac, distance, width = rays.extras["known"].T / rays.opacity
        size = rays.pixel % (WIDTH * HEIGHT)
        of_pixel = (rays.pixel - size) // (WIDTH * HEIGHT)
        is_seen = rays.opacity > 0.99
        errors = [
            mx.abs(view - of_pixel),
            mx.abs(radius - 100.0 * rays.radius),
            mx.abs(frac - 0.4),
            mx.abs(distance - rays.depth / rays.opacity),
        ]
        found.append(len(errors))
        misses = sum((each > 1e-3).astype(mx.float32) for each in errors)
        return mx.where(is_seen, misses, 0.0) + (is_seen & (width < 0.5))

    run = Run.begin(scene, CONFIG, method=Method(field=Known, loss=check))
    _, result = Trainer(run.model, scene.views("train")).advance(run.state, 1 / 3, 0.4)
    assert found == [4]
    assert float(result.measured[0]) == 0.0
    assert float(result.measured[2]) > 100, "there are samples"


def test_a_rendering_has_no_view_and_the_progress_of_its_parameters(scene, tmp_path):
    method = Method(field=Known)
    run = nerfmac.train(
        scene, CONFIG, Goal(steps=2), method=method, progress=False, out=tmp_path / "run"
    )
    camera = scene.cameras("test")[0]

    def known(run):
        image = run.render(camera)
        middle = image.extras["known"][HEIGHT // 2, WIDTH // 2]
        return middle / image.opacity[HEIGHT // 2, WIDTH // 2]

    view, radius, frac, distance, width = known(run)
    assert (view, frac) == pytest.approx((-1.0, 1.0), abs=1e-3)
    assert radius == pytest.approx(100.0 * 2.0 / 12**0.5 / camera.lens.fl_x, rel=0.02)
    assert distance == pytest.approx(np.linalg.norm(camera.pose[:, 3] - 0.5) - 0.3, abs=0.05)
    assert width > 0.5
    whole = Goal(steps=8)
    seen = []
    resume(run, whole, progress=False, on_report=lambda report: seen.append(known(run)[2]))
    assert seen[0] < seen[-1] == pytest.approx(1.0, abs=1e-3)
    half = Run.load(tmp_path / "run", method=method)
    half.state = replace(half.state, train_frac=0.25)
    half.save(tmp_path / "half")
    assert known(Run.load(tmp_path / "half", method=method))[2] == pytest.approx(0.25, abs=1e-3)


class Twice(HashGrid):
    def __call__(self, parameters, samples, rays):
        return 2.0 * super().__call__(parameters, samples, rays)


def test_a_subclass_of_the_hash_grid_is_rendered_as_it_is_trained(scene):
    run = Run.begin(scene, CONFIG)
    large = {name: 0.5 * mx.random.normal(v.shape) for name, v in run.state.average.items()}
    doubled = large | {"table": 2.0 * large["table"]}

    def image(method, parameters):
        model = nerfmac.Model(run.config, scene.bounds, method=method)
        state = replace(run.state, average=parameters)
        return model.renderer(state).render(scene.cameras("test")[0]).color

    def field(config, bounds):
        return EncodedField(Twice(config.grid, bounds), config.networks)

    want, got = image(Method(), doubled), image(Method(field=field), large)
    np.testing.assert_allclose(got, want, atol=2e-3)
    assert np.abs(want - image(Method(), large)).max() > 0.05


def test_points_of_the_occupancy_grid_are_seen_from_the_nearest_camera(scene):
    seen = []

    def density(parameters, samples, rays):
        seen.append((samples, rays))
        return mx.zeros_like(samples.distance)

    bounds = nerfmac.Bounds(4.0)
    march = settled(CONFIG, bounds).march
    sampler = MarchingSampler(march, CONFIG.occupancy, bounds, density)
    state = sampler.init([])
    eyes = np.random.default_rng(1).uniform(-1.0, 2.0, (20, 3)).astype(np.float32)
    radii = np.linspace(0.001, 0.02, 20).astype(np.float32)
    march = sampler.geometry
    viewpoints = Viewpoints(eyes, radii, march.step, march.cone, mx.array(0.7))
    rays = nerfmac.Rays(mx.zeros((4, 3)), mx.array([[0.0, 0.0, 1.0]] * 4))
    sampler.update({}, state, rays, viewpoints.through, mx.random.key(0), 0)
    (samples, rays), position = seen[0], np.array(seen[0][0].position)
    away = np.linalg.norm(position[:, None] - eyes, axis=2)
    nearest = away.argmin(axis=1)
    assert len(set(nearest)) > 10
    np.testing.assert_allclose(samples.distance, away.min(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(rays.radius, radii[nearest])
    np.testing.assert_array_equal(rays.origin, eyes[nearest])
    ends = np.array(rays.origin) + np.array(rays.direction) * np.array(samples.distance)[:, None]
    np.testing.assert_allclose(ends, position, atol=1e-5)
    steps = np.maximum(march.step, march.cone * away.min(axis=1))
    np.testing.assert_allclose(samples.width, steps, rtol=1e-5)
    assert float(rays.train_frac) == pytest.approx(0.7)
    assert set(np.array(rays.view).tolist()) == {-1}
