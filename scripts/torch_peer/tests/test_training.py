"""The peer in PyTorch starts as nerfmac does, follows the same recipe, and learns as it does."""

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches
from ops.marching import PLENTY, some_rays, words
from scene_factory import CONFIG as GIVEN, write_scene

from nerfmac.app.scenes import load_scene
from nerfmac.backend import choose_device, kernels_disabled
from nerfmac.common import FAR_DISTANCE, InputError
from nerfmac.config import override
from nerfmac.config.sampling import FIRST_INTERVAL
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.encodings import encoding_of
from nerfmac.geometry import Bounds, Rays, over
from nerfmac.ops.composite import composite
from nerfmac.ops.huber import huber
from nerfmac.ops.march import Occupied, march
from nerfmac.ops.masked_mean import masked_mean
from nerfmac.rendering.metrics import psnr
from nerfmac.sampling.occupancy import MarchingSampler
from nerfmac.training.goal import Goal
from nerfmac.training.optimizer import (
    OptimizerState,
    StepNumbers,
    adam,
    averaged,
    is_averaged,
    newest_weight,
    no_moments,
    step_numbers,
)
from nerfmac.training.resolve import settled
from tests.scene_factory import initial, trainer_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install torch`")

from torch_peer import peer as peer_module  # noqa: E402
from torch_peer.field import TorchField  # noqa: E402
from torch_peer.peer import TorchPeer  # noqa: E402
from torch_peer.tests.torch_arrays import EPSILON, RANDOM, in_torch, parameters_of  # noqa: E402 - they import torch

CONFIG = settled(GIVEN, Bounds(1.0))


@pytest.fixture(autouse=True)
def on_one_core_of_the_cpu(monkeypatch):
    choose_device("cpu")
    # So little work gains nothing from more, and PyTorch's threads wait long on a busy machine.
    monkeypatch.setattr(peer_module, "processors", lambda: 1)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return load_scene(write_scene(tmp_path_factory.mktemp("scene")))


def peer_on(scene, compiled=False, **changes):
    config = override(CONFIG, **changes)
    return TorchPeer(config, scene.extent, scene.views("train"), "cpu", compiled=compiled)


def test_rays_seen_through_the_same_field_look_the_same(scene):
    peer, config = peer_on(scene), CONFIG
    parameters = parameters_of(config, scene.extent)
    peer.average = TorchField(config, scene.extent, parameters)
    origins, directions, _ = map(mx.array, some_rays(peer.geometry, 90))
    peer.occupancy.occupied[:] = True
    bits = words(peer.occupancy.occupied.numpy())
    with kernels_disabled():
        field = EncodedField(encoding_of(config, Bounds(scene.extent)), config.networks)
        sampler = MarchingSampler(
            config.march, config.occupancy, Bounds(scene.extent), field.density
        )
        geometry = sampler.occupied({"bits": bits}).geometry  # of finer steps
        samples = march(origins, directions, mx.full((90,), 0.5), Occupied(geometry, bits), PLENTY)
        arrays = {name: mx.array(values) for name, values in parameters.items()}
        want = composite(*field(arrays, samples, Rays(origins, directions))[:2], samples)
    got = peer.infer(*in_torch([origins, directions])).numpy()
    # Hundreds of terms, through three layers and an exponential.
    assert_matches(got[:, :3], want.color, rel=2e4 * EPSILON, name="color")
    assert_matches(got[:, 3], want.opacity, rel=2e4 * EPSILON, name="opacity")


def test_a_step_s_loss_and_gradients_are_nerfmac_s(scene, monkeypatch):
    peer = peer_on(scene)
    peer.field = TorchField(CONFIG, scene.extent, parameters_of(CONFIG, scene.extent))
    peer.occupancy.occupied[:] = True
    drawn = {}
    sample, see, huber_loss = peer._sample, peer._see, torch.nn.functional.huber_loss

    def sampled(*arguments):
        drawn["rays"] = [mx.array(each.numpy()) for each in arguments[:3]]
        return sample(*arguments)

    def seen(*arguments):
        drawn["seen"] = see(*arguments)
        drawn["seen"].retain_grad()
        return drawn["seen"]

    def compared(*colors, **options):
        drawn["colors"] = [mx.array(each.detach().numpy()) for each in colors]
        return huber_loss(*colors, **options)

    peer._sample, peer._see = sampled, seen
    monkeypatch.setattr(peer_module.functional, "huber_loss", compared)
    loss, _ = peer._loss()
    loss.backward()
    bits = words(peer.occupancy.occupied.numpy())
    origins, directions, jitter = drawn["rays"]
    field = EncodedField(encoding_of(CONFIG, Bounds(scene.extent)), CONFIG.networks)
    parameters = {name: mx.array(values) for name, values in peer.field.export().items()}
    with kernels_disabled():
        sampler = MarchingSampler(
            CONFIG.march, CONFIG.occupancy, Bounds(scene.extent), field.density
        )
        rays, both = Rays(origins, directions), mx.stack([jitter, jitter], axis=1)
        samples = sampler.sample(parameters, {"bits": bits}, rays, both).samples

        def pixels(parameters):
            ours = composite(*field(parameters, samples, rays)[:2], samples)
            return mx.concatenate([ours.color, ours.opacity[:, None]], axis=1)

        def pulled(parameters):
            return (pixels(parameters) * mx.array(drawn["seen"].grad.numpy())).sum()

        want, gradients = pixels(parameters), mx.grad(pulled)(parameters)
        losses = huber(*drawn["colors"], CONFIG.train.huber)
        want_loss = masked_mean(losses, samples.fits.astype(mx.float32), mx.array(1.0)).mean
    assert loss.item() == pytest.approx(want_loss.item(), rel=64 * EPSILON)
    assert_matches(drawn["seen"].detach().numpy(), want, rel=2e3 * EPSILON, name="pixels")
    # Sums over a thousand samples, through two networks and an exponential.
    for name, values in gradients_of(peer.field).items():
        assert_matches(values, gradients[name], rel=2e3 * EPSILON, name=name)


def gradients_of(field):
    return {
        "table": field.table.grad.numpy(),
        "density": flat_gradient(field.density_layers),
        "color": flat_gradient(field.color_layers),
    }


def flat_gradient(layers):
    return torch.cat([layer.grad.flatten() for layer in layers]).numpy()


def test_adam_and_the_average_are_nerfmac_s(scene):
    peer = peer_on(scene)
    start = peer.field.export()
    arrays = {name: mx.array(values) for name, values in start.items()}
    field = EncodedField(encoding_of(CONFIG, Bounds(scene.extent)), CONFIG.networks)
    specs = field.parameter_specs.items()
    decayed = {name for name, spec in specs if spec.is_l2_regularized}
    now, average = OptimizerState(arrays, no_moments(arrays)), arrays
    for step, progress in enumerate((0.0, 0.3, 0.9, *[0.95] * 6), 1):  # not averaged the last time
        gradients = {
            name: RANDOM.standard_normal(values.shape).astype(np.float32)
            for name, values in start.items()
        }
        other = TorchField(CONFIG, scene.extent, gradients)
        for parameter, gradient in zip(peer.field.parameters(), other.parameters(), strict=True):
            parameter.grad = gradient.detach()
        peer._move(progress)
        drawn = {name: mx.array(values) for name, values in gradients.items()}
        factor = CONFIG.optimizer.factor_at(progress, step - 1)
        numbers = StepNumbers.of(mx.array(step_numbers(step, factor, CONFIG.optimizer)))
        now = adam(now, drawn, numbers, decayed, mx.array([1.0]))
        if is_averaged(step):
            weight = mx.array(newest_weight(step, CONFIG.optimizer))
            average = averaged(average, now.parameters, weight, mx.array(0))
    for field, want in ((peer.field, now.parameters), (peer.average, average)):
        for name, values in field.export().items():
            # nerfmac keeps a parameter's two moments in 32 bits, the first of them in 12.
            assert_matches(values, want[name], rel=2**-11, name=name)


def test_both_start_alike_and_have_as_many_rays(scene):
    peer = peer_on(scene)
    trainer = trainer_of(CONFIG, scene.bounds, scene.views("train"))
    start = initial(trainer)
    for name, values in peer.field.export().items():
        np.testing.assert_array_equal(values, np.array(start.parameters[name]))
    grid = peer.occupancy
    np.testing.assert_array_equal(grid.values, np.array(start.sampling["values"]))
    np.testing.assert_array_equal(grid.dark, np.array(start.sampling["updates_since_visible"]))
    is_set = words(grid.occupied.numpy())
    np.testing.assert_array_equal(np.array(is_set), np.array(start.sampling["bits"]))
    assert peer.config == trainer.config  # both use its ray counts and its update interval
    assert peer.rays == start.rays


def test_an_update_follows_rays_of_the_training_views(scene):
    peer, asked, shown = (
        peer_on(scene, occupancy={"visibility_rays": 48, "warmup_steps": 0}),
        [],
        [],
    )
    lit = peer._sample.lit

    def record(*given):
        asked.append(given)
        shown.append(lit(*given))
        return shown[-1]

    peer._sample.lit = record
    for _ in range(FIRST_INTERVAL + 1):  # an update comes before the first and the last step
        peer.step()
    cameras = np.array(scene.views("train").cameras.poses)[:, :, 3].tolist()
    for origins, _, jitter, *_ in asked:
        assert jitter.shape == (48,)
        assert len(origins.unique(dim=0)) > 1
        assert all(origin in cameras for origin in origins.tolist())
    (one, *_, before, _), (other, *_, after, _) = asked
    assert (one != other).any()
    assert before.any()
    assert (before != after).any()
    np.testing.assert_array_equal(peer.occupancy.dark == 0, shown[1])
    np.testing.assert_array_equal(peer.occupancy.dark == 1, shown[0] & ~shown[1])


def test_during_the_warm_up_light_goes_through_everything(scene):
    peer, asked = peer_on(scene, occupancy={"visibility_rays": 48}), []
    lit = peer._march.lit
    peer._march.lit = lambda *given: asked.append(given[-1]) or lit(*given)
    peer.step()
    (until,) = asked
    assert until.shape == (48,)
    assert (until == FAR_DISTANCE).all()


def test_the_number_of_rays_follows_the_light_as_far_as_there_is_room_for_trying(scene):
    peer = peer_on(scene)
    arrays = peer.field.export()
    # Opaque everywhere: light reaches one sample of a ray.
    opaque = {name: np.full_like(values, 0.3) for name, values in arrays.items()}
    peer.field = TorchField(CONFIG, scene.extent, opaque)
    assert peer._density(torch.rand(100, 3)).min() > 1e3
    peer.step()
    assert 0 < peer.samples_last_step <= CONFIG.train.rays
    peer._next_update = peer.steps  # this step has an update
    peer.step()
    # So many rays' samples would fit the slots, but to be tried they must fit the room too.
    assert 5 * CONFIG.train.rays < peer.rays < CONFIG.train.max_rays


def test_both_learn_alike(scene):
    steps, last = 150, slice(-40, None)
    peer, theirs = peer_on(scene), []
    trainer = trainer_of(CONFIG, scene.bounds, scene.views("train"))
    for step in range(steps):
        peer.step(step / steps)
        theirs.append(peer.loss)
    reports = trainer.train(initial(trainer), Goal(steps=steps))
    ours = [report.loss for report in reports if report.state.step > steps - 40]
    assert np.mean(theirs[last]) < 0.6 * np.mean(theirs[:5])
    assert np.mean(theirs[last]) == pytest.approx(np.mean(ours), rel=0.15)
    assert peer.samples_last_step > 0.5 * CONFIG.march.max_samples
    assert peer.rays != CONFIG.train.rays, "the number of rays never changed"


def test_trained_images_resemble_the_photos_more_than_their_mirror_images_do(scene):
    peer, views = peer_on(scene), scene.views("train")
    for step in range(300):
        peer.step(step / 300)
    qualities = []
    for index in range(len(views.names)):
        image = peer.render(views.cameras[index])
        rgba = views.image(index).astype(mx.float32) / 255.0
        photo = np.array(over(rgba, mx.ones(3), "srgb"))
        assert image.shape == photo.shape
        assert image.dtype == np.float32
        others = (image[::-1], image[:, ::-1], np.ones_like(image))
        qualities.append([psnr(each, photo) for each in (image, *others)])
    quality, *other = np.mean(qualities, axis=0)
    assert quality > max(other) + 3.0


def test_an_absent_device_and_linear_light_are_refused(scene):
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="device is 'cuda'; PyTorch finds none"):
            TorchPeer(CONFIG, scene.extent, scene.views("train"), "cuda")
    with pytest.raises(InputError, match="device is 'metal'; PyTorch's are cpu, cuda, mps"):
        TorchPeer(CONFIG, scene.extent, scene.views("train"), "metal")
    with pytest.raises(InputError, match=r"train\.blend is 'linear'"):
        peer_on(scene, train={"blend": "linear"})


def test_where_nothing_can_be_compiled_the_peer_does_without(scene, monkeypatch):
    def compiler(function, **_):
        def broken(*_):
            raise RuntimeError("no compiler")

        return broken

    monkeypatch.setattr(torch, "compile", compiler)
    peer = peer_on(scene, compiled=True)
    assert peer.note == "torch.compile failed (RuntimeError): not compiled"
    peer.step()
    assert np.isfinite(peer.loss)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # importing its compiler, PyTorch warns about its own code
def test_compiled_it_computes_the_same(scene):
    peers = [peer_on(scene, compiled=compiled) for compiled in (True, False)]
    assert peers[0].note == ""
    for _ in range(20):
        for peer in peers:
            peer.step()
    assert peers[0].loss == pytest.approx(peers[1].loss, rel=0.05)
    camera = scene.views("test").cameras[0]
    one, other = (peer.render(camera) for peer in peers)
    assert_matches(one, other, rel=0.05, name="image")
