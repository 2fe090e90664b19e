"""Overflow in half precision skips a step and lowers the loss scale; nothing else changes."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Bounds, EncodedField, FieldOutput, Goal, Method
from nerfmac.app.run import Run, Training
from nerfmac.config import override
from nerfmac.fields.encodings import encoding_of
from nerfmac.ops.huber import huber
from nerfmac.ops.loss_scale import LossScale
from nerfmac.ops.networks import truncated_exp
from nerfmac.ops.spherical_harmonics import spherical_harmonics
from nerfmac.training.checkpoint import load_checkpoint, save_checkpoint
from nerfmac.training.measured import MOST_SKIPPED, DivergedError
from tests.scene_factory import CONFIG, initial, trainer_of

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def numbers(scale: LossScale) -> list[float]:
    return [np.array(each).item() for each in scale]


@mx.custom_function
def through_half(values):
    """The values; their gradients pass through half precision, 400 times as large."""
    return values


@through_half.vjp
def _through_half_vjp(_values, cotangent, _output):
    return (400.0 * cotangent).astype(mx.float16).astype(mx.float32) / 400.0


def overflowing(seen, target):
    """A loss with gradients that are finite only up to a loss scale of some thousands."""
    return huber(through_half(seen.color), target, 0.1)


def trainer_for(scene, **changes):
    config = override(CONFIG, train={"loss_scale": 2.0**16} | changes)
    return trainer_of(config, scene.bounds, scene.views("train"), Method(loss=overflowing))


def in_bytes(tree) -> dict[str, bytes]:
    return {name: np.array(values).tobytes() for name, values in tree.items()}


def test_a_step_whose_gradients_overflow_changes_nothing_but_the_scale(scene):
    trainer = trainer_for(scene)
    before = initial(trainer)
    after, _ = trainer.advance(before, 1 / 3)
    for tree in ("parameters", "moments", "average", "sampling"):
        assert in_bytes(getattr(after, tree)) == in_bytes(getattr(before, tree)), tree
    assert numbers(LossScale(**after.scaling)) == [2.0**15, 0, 1, 1]
    assert after.step == before.step + 1


def test_the_scale_falls_until_gradients_fit_and_training_goes_on(scene):
    trainer = trainer_for(scene)
    *_, last = trainer.train(initial(trainer), Goal(steps=80))
    skipped = last.skipped_steps
    assert 1 <= skipped <= 12
    assert last.state.scaling["scale"].item() == 2.0 ** (16 - skipped)
    assert not last.is_skipped
    assert last.psnr > 12.0
    never = trainer_for(scene, loss_scale=1.0)
    *_, other = never.train(initial(never), Goal(steps=60))
    assert other.skipped_steps == 0


def test_the_reported_loss_does_not_depend_on_the_scale(scene):
    trainers = [trainer_for(scene, loss_scale=scale) for scale in (1.0, 4.0)]
    (one,), (other,) = (each.train(initial(each), Goal(steps=1)) for each in trainers)
    assert one.loss == pytest.approx(other.loss, rel=1e-6)


def test_a_skipped_step_is_reported_with_finite_figures(scene):
    trainer = trainer_for(scene)
    (first,) = trainer.train(initial(trainer), Goal(steps=1))
    assert first.is_skipped
    assert np.isfinite([first.loss, first.psnr, first.samples_per_second]).all()


def test_a_run_resumed_between_skips_ends_with_the_same_bits(scene, tmp_path):
    trainer = trainer_for(scene)
    *_, whole = trainer.train(initial(trainer), Goal(steps=20))
    *_, part = trainer.train(initial(trainer), Goal(steps=3))
    save_checkpoint(tmp_path / "c.safetensors", part.state, {})
    state, _ = load_checkpoint(tmp_path / "c.safetensors", trainer.model.shapes)
    assert state.scaling["skipped"].item() == part.skipped_steps > 0
    *_, resumed = trainer.train(state, Goal(steps=20))
    assert in_bytes(resumed.state.arrays()) == in_bytes(whole.state.arrays())


def test_training_that_cannot_recover_ends_with_its_last_good_state(scene, tmp_path):
    def spoilt(seen, target):
        # The scale never falls far enough for this gradient.
        return 1e38 * huber(through_half(1e3 * seen.color), target, 0.1)

    method, out = Method(loss=spoilt), tmp_path / "run"
    training = Training.begin(Run.begin(scene, CONFIG, method=method, progress=False), out)
    run = training.run
    before = in_bytes(run.state.parameters)
    with pytest.raises(DivergedError) as caught:
        training.train(Goal(steps=200), progress=False)
    assert caught.value.run is run
    assert run.state.step < MOST_SKIPPED
    assert in_bytes(Run.load(tmp_path / "run").state.parameters) == before
    assert "optimizer.rate" in str(caught.value)


class HalfField(EncodedField):
    """The configuration's field as a GPU computes it: features, weights and products are half."""

    def __call__(self, parameters, samples, rays):
        features = self.encoding(parameters, samples, rays)
        is_used = (mx.arange(features.shape[0]) < samples.used)[:, None]
        features = mx.where(is_used, features, 0.0)  # zero times infinity or NaN is not zero
        embedding = half_mlp(features, parameters["density"], self.networks_shape.density)
        density = truncated_exp(
            embedding[:, 0].astype(mx.float32) - self.networks_shape.density_bias
        )
        basis = spherical_harmonics(rays.direction)[samples.ray].astype(mx.float16)
        inputs = mx.concatenate([embedding, basis], axis=1)
        logits = half_mlp(inputs, parameters["color"], self.networks_shape.color)
        return FieldOutput(density, mx.sigmoid(logits[:, :3].astype(mx.float32)))


def half_mlp(inputs, weights, shape):
    *hidden, last = (each.astype(mx.float16) for each in shape.split(weights))
    inputs = inputs.astype(mx.float16)
    for matrix in hidden:
        inputs = mx.maximum(inputs @ matrix, 0.0)
    return inputs @ last


def half_trainer(scene):
    config = override(CONFIG, train={"loss_scale": 2.0**16})
    encoding = encoding_of(config, Bounds(scene.extent))
    method = Method(lambda *_: HalfField(encoding, config.networks))
    return trainer_of(config, scene.bounds, scene.views("train"), method)


def test_a_field_in_half_precision_survives_gradients_that_overflow(scene):
    trainer = half_trainer(scene)
    state = initial(trainer)
    # Weights so large that the features' gradients leave half's range.
    larger = state.parameters | {"density": 200.0 * state.parameters["density"]}
    *_, last = trainer.train(replace(state, parameters=larger), Goal(steps=120))
    assert 0 < last.skipped_steps < 60
    assert not last.is_skipped
    assert all(mx.isfinite(values).all().item() for values in last.state.average.values())
