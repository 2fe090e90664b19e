"""A custom field, sampler, and loss work everywhere in place of the built-in ones."""

import mlx.core as mx
import numpy as np
import pytest

import nerfmac
import nerfmac.config.presets
from nerfmac import Bounds, FieldOutput, Goal, Method, ParameterSpec, Run
from nerfmac.app.run import Training, resume
from nerfmac.backend import working_dtype
from nerfmac.training.losses import huber_loss
from nerfmac.training.trainer import Trainer
from tests.scene_factory import CONFIG, initial, trainer_of

pytestmark = pytest.mark.usefixtures("on_the_cpu")


class Ball(nerfmac.Field):
    parameter_specs = {  # noqa: RUF012
        "center": ParameterSpec((3,)),
        "radius": ParameterSpec((1,)),
        "color": ParameterSpec((3,)),
    }

    def init(self, key):
        return {"center": mx.full((3,), 0.5), "radius": mx.array([0.2]), "color": mx.zeros(3)}

    def density_at(self, parameters, position):
        distance = mx.linalg.norm(position - parameters["center"], axis=-1)
        return 40.0 * mx.sigmoid(30.0 * (parameters["radius"] - distance))

    def __call__(self, parameters, samples, rays):
        color = mx.sigmoid(parameters["color"])
        density = self.density_at(parameters, samples.position)
        return FieldOutput(density, mx.broadcast_to(color, samples.position.shape))


class Even(nerfmac.Sampler):
    """So many samples on each ray, evenly between two distances."""

    most_samples = 24

    def sample(self, parameters, state, rays, drawn):
        count, number = rays.origin.shape[0], self.most_samples
        width = 2.0 / number
        distance = 0.7 + width * (mx.arange(number) + drawn)
        position = rays.origin[:, None] + distance[..., None] * rays.direction[:, None]
        samples = nerfmac.Samples(
            position.reshape(-1, 3),
            distance.reshape(-1),
            mx.full((count * number,), width),
            mx.repeat(mx.arange(count, dtype=mx.int32), number),
            mx.arange(count + 1, dtype=mx.int32) * number,
            mx.full((count,), number, mx.int32),
        )
        return nerfmac.Sampled(samples)


def squared(seen, target):
    return mx.square(seen.color - target).mean(axis=1)


METHODS = {
    "field": Method(field=Ball),
    "sampler": Method(sampler=Even),
    "loss": Method(loss=squared),
    "all": Method(Ball, Even, squared),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_swapped_part_learns_and_comes_back_from_a_folder(scene, tmp_path, method):
    run, errors = Run.begin(scene, CONFIG, method=method), []
    resume(
        run, Goal(steps=200), progress=False, on_report=lambda report: errors.append(report.loss)
    )
    assert np.mean(errors[-4:]) < 0.9 * errors[0]
    run.save(tmp_path)
    loaded = Run.load(tmp_path, method=method)
    camera = scene.splits["test"][0].camera
    want, got = (each.render(camera) for each in (run, loaded))
    assert want.opacity.max() > (0.5 if method.field else 1e-4)
    assert np.array_equal(got.color, want.color)
    assert [view.psnr for view in loaded.evaluate(progress=False)] == [
        view.psnr for view in run.evaluate(progress=False)
    ]


class Spread(Even):
    """Even samples of a learned spread, which its own loss moves to 0.3."""

    parameter_specs = {"spread": ParameterSpec((1,))}  # noqa: RUF012

    def init_parameters(self, key):
        return {"spread": mx.ones(1)}

    def sample(self, parameters, state, rays, drawn):
        return super().sample(parameters, state, rays, drawn)._replace(learned=parameters["spread"])

    def loss(self, sampled, rays, target):
        return mx.broadcast_to(mx.square(sampled.learned - 0.3), rays.opacity.shape)


def test_the_loss_of_a_sampler_trains_its_parameters_and_nothing_else(scene):
    runs = [Run.begin(scene, CONFIG, method=Method(Ball, each)) for each in (Even, Spread)]
    for run in runs:
        resume(run, Goal(steps=40), progress=False)
    plain, learned = (run.state.parameters for run in runs)
    assert 0.3 < learned["spread"].item() < 0.9
    for name, values in plain.items():
        assert mx.array_equal(values, learned[name]), name


class Striped(Ball):
    """The ball with the height and the opacity of each sample as additional outputs."""

    extras = {"height": 1, "both": 4}  # noqa: RUF012

    def __call__(self, parameters, samples, rays):
        height = samples.position[:, 2:]
        ones = mx.ones_like(height)
        both = mx.concatenate([ones, height, ones, 2.0 * height], axis=1)
        output = super().__call__(parameters, samples, rays)
        return output._replace(extras={"height": height, "both": both})


@pytest.mark.parametrize("sampler", [None, Even], ids=["occupancy grid", "even samples"])
def test_additional_outputs_are_composited_with_the_weights_of_colors(scene, sampler):
    method = Method(Striped, sampler)
    run = Run.begin(scene, CONFIG, method=method)
    resume(run, Goal(steps=20), progress=False)
    camera = scene.splits["test"][0].camera
    seen = run.render(camera)
    assert {name: values.shape for name, values in seen.extras.items()} == {
        "height": (*seen.opacity.shape, 1),
        "both": (*seen.opacity.shape, 4),
    }
    height, both = seen.extras["height"][..., 0], seen.extras["both"]
    np.testing.assert_allclose(both[..., 0], seen.opacity, atol=2e-4)
    np.testing.assert_allclose(both[..., 2], seen.opacity, atol=2e-4)
    np.testing.assert_allclose(both[..., 1], height, atol=1e-6)
    np.testing.assert_allclose(both[..., 3], 2.0 * height, atol=1e-6)
    is_opaque = seen.opacity > 0.9
    mean = (height / np.maximum(seen.opacity, 1e-6))[is_opaque]
    assert is_opaque.any()
    assert mean.min() > 0.2
    assert mean.max() - mean.min() > 0.05, "the height differs between pixels"


def test_a_loss_sees_additional_outputs_the_pixel_and_a_density_with_a_gradient(scene):
    views = scene.views("train")

    def of_colors(rays, target):
        color = views.pixels[rays.pixel].astype(mx.float32) / 255.0
        over = color[:, 3:] * color[:, :3] + (1.0 - color[:, 3:]) * mx.stop_gradient(target)
        return 1e3 * mx.square(over - target) * (color[:, 3:] > 0.999)

    def of_density(rays, target):
        edge = mx.array([[0.5, 0.5, 0.7]])
        return mx.broadcast_to(-rays.density_at(edge), rays.opacity.shape)

    def of_extras(rays, target):
        return -10.0 * rays.extras["height"]

    results = []
    for losses in ((), (of_colors,), (of_density,), (of_extras,)):
        method = Method(Striped, extra_losses=losses)
        trainer = trainer_of(CONFIG, scene.bounds, scene.views("train"), method)
        after, result = trainer.advance(initial(trainer), factor=1 / 3)
        results.append((float(result.measured[0]), after.parameters["radius"].item()))
    plain, colors, density, extras = results
    assert colors == pytest.approx(plain, rel=1e-4), "the pixel of a ray has its target color"
    assert plain[1] == pytest.approx(0.19), "the ball shrinks"
    assert density[1] == extras[1] == pytest.approx(0.21), "both losses enlarge it"


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        (lambda output: tuple(output[:2]), "FieldOutput"),
        (lambda output: output._replace(extras={}), "extras"),
        (lambda output: output._replace(extras={**output.extras, "more": output.color}), "more"),
        (
            lambda output: output._replace(extras={**output.extras, "height": output.color}),
            r"height.*\(\d+, 3\)",
        ),
    ],
)
def test_an_output_that_is_not_declared_is_refused(scene, field, complaint):
    class Wrong(Striped):
        def __call__(self, *arguments):
            return field(super().__call__(*arguments))

    run = Run.begin(scene, CONFIG, method=Method(Wrong))
    with pytest.raises(nerfmac.InputError, match=f"output of Wrong .*{complaint}"):
        resume(run, Goal(steps=1), progress=False)


def test_the_loss_is_of_the_colors_in_front_of_the_rays_backgrounds(scene):
    seen = []

    def watching(composited, target):
        seen.append((composited.color.shape, target.shape))
        return huber_loss(CONFIG.train.huber)(composited, target)

    own, configured = (
        Run.begin(scene, CONFIG, method=method) for method in (Method(loss=watching), Method())
    )
    for run in (own, configured):
        resume(run, Goal(steps=3), progress=False)
    assert seen
    assert all(color == target and color[1:] == (3,) for color, target in seen)
    for name, values in configured.state.parameters.items():
        assert np.array_equal(np.array(values), np.array(own.state.parameters[name])), name


def test_several_losses_of_a_ray_count_as_their_mean(scene):
    def several(seen, target):
        return mx.square(seen.color - target)

    runs = [
        Run.begin(scene, CONFIG, method=Method(loss=loss))
        for loss in (several, lambda seen, target: several(seen, target).mean(axis=1))
    ]
    reports = [next(Training(run).fit(Goal(steps=5))) for run in runs]
    assert reports[0].loss == pytest.approx(reports[1].loss, rel=1e-5)


def test_only_decayed_parameters_shrink_without_a_gradient(scene):
    class Still(Ball):
        parameter_specs = Ball.parameter_specs | {
            "radius": ParameterSpec((1,), is_l2_regularized=True)
        }

        def density_at(self, parameters, position):
            return 0.0 * position[:, 0] * parameters["radius"]

    config = nerfmac.config.override(CONFIG, optimizer={"l2": 1e-2})
    run = Run.begin(scene, config, method=Method(field=Still))
    resume(run, Goal(steps=20), progress=False)
    assert run.state.parameters["radius"].item() < 0.199
    assert np.array_equal(np.array(run.state.parameters["center"]), [0.5, 0.5, 0.5])


@pytest.mark.parametrize("is_bounded", [False, True])
def test_a_step_is_skipped_unless_the_gradient_that_is_not_finite_is_bounded(scene, is_bounded):
    class Nan(Ball):
        parameter_specs = Ball.parameter_specs | {
            "radius": ParameterSpec((1,), has_bounded_gradient=is_bounded)
        }

        def density_at(self, parameters, position):
            return super().density_at(parameters, position) + mx.sqrt(0.0 * parameters["radius"])

    run = Run.begin(scene, CONFIG, method=Method(field=Nan))
    after, _ = Trainer(run.model, scene.views("train")).advance(run.state, 3.0)
    is_moved = not mx.array_equal(after.parameters["color"], run.state.parameters["color"])
    assert is_moved == is_bounded


class Waves(nerfmac.Encoding):
    """Sines of learned directions, in the unit cube of the bounds."""

    outputs = 16
    parameter_specs = {"directions": ParameterSpec((3, 16))}  # noqa: RUF012

    def __init__(self, bounds):
        self.bounds = bounds

    def init(self, key):
        return {"directions": 6.0 * mx.random.normal((3, 16), key=key)}

    def __call__(self, parameters, samples, rays):
        waves = mx.sin(self.bounds.to_unit(samples.position) @ parameters["directions"])
        return waves.astype(working_dtype())


def test_an_own_encodings_parameters_are_trained_beside_the_networks(scene):
    field = nerfmac.EncodedField(Waves(Bounds(scene.extent)), CONFIG.networks)
    run = Run.begin(scene, CONFIG, method=Method(field=lambda *_: field))
    start = {name: np.array(values) for name, values in run.state.parameters.items()}
    before = np.mean([view.psnr for view in run.evaluate(progress=False)])
    resume(run, Goal(steps=200), progress=False)
    assert start.keys() == {"directions", "density", "color"}
    for name, values in run.state.parameters.items():
        assert not np.array_equal(start[name], values), name
    assert np.mean([view.psnr for view in run.evaluate(progress=False)]) > before + 3.0
