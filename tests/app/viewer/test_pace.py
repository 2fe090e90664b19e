"""Images fill the time that they have, and training gets its share; on a simulated clock."""

import random

import pytest

from nerfmac.app.viewer import pace

FULL = 1280, 720
PIXELS = FULL[0] * FULL[1]
NOTHING = 0.0, 0.0


class Device:
    """A device that needs `fixed` seconds for each drawing, and `cost` for each pixel."""

    def __init__(self, cost, fixed=0.0, noise=lambda: 1.0):
        self.pace, self.cost, self.fixed, self.noise = pace.Pace(), cost, fixed, noise
        self.shown = NOTHING
        self.strips = []  # Seconds of the strips of the last image.

    def draw(self, kind, *, training=False, step=pace.HAZE_STEPS):
        """Draw the next image, and return its scale."""
        scale = self.pace.scale(kind, "rgb", PIXELS, step, self.shown)
        width, height = (max(round(scale * side), 1) for side in FULL)
        drawing, self.strips = pace.Drawing(kind), []
        while height > 0:
            rows = self.pace.rows(drawing, "rgb", width, height)
            seconds = (self.fixed + self.cost * rows * width) * self.noise()
            self.pace.drawn(drawing, "rgb", rows * width, seconds, training=training)
            self.strips.append(seconds)
            height -= rows
        self.shown = scale, sum(self.strips)
        return scale


@pytest.mark.parametrize("fixed", [0.0, 0.008, 0.1])
@pytest.mark.parametrize("cost", [3e-9, 5e-8, 2e-7, 1e-6])
@pytest.mark.parametrize("kind", [pace.Kind.MOVING, pace.Kind.WARPED])
def test_images_come_to_fill_their_time_and_do_not_swing(kind, cost, fixed):
    device = Device(cost, fixed)
    scale = [device.draw(kind) for _ in range(60)][-20:]
    assert len(set(scale)) == 1
    seconds, longest = kind.value
    allowed, least = max(seconds, 2.0 * fixed), pace.SCALES[3]  # an eighth of the pixels
    if scale[0] == pytest.approx(least):
        assert device.shown[1] <= pace.LATE * max(longest, allowed)
    else:
        assert device.shown[1] <= pace.LATE * allowed
        double = fixed + 2.0 * cost * PIXELS * scale[0] ** 2
        assert scale[0] == 1.0 or double > 0.95 * allowed


@pytest.mark.parametrize("cost", [5e-8, 1e-6])
def test_a_resting_image_is_full_and_no_strip_is_long_after_the_first_ones(cost):
    device = Device(cost, fixed=0.002)
    assert device.draw(pace.Kind.WARPED) < pace.MIDDLE
    assert [device.draw(pace.Kind.RESTING) for _ in range(2)] == [pace.MIDDLE, 1.0]
    assert max(device.strips) <= pace.LATE * max(pace.STRIP, 0.002 + 4 * 1280 * cost)
    assert len(device.strips) < 4 * sum(device.strips) / pace.STRIP + 2, "nor too short"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("is_spiky", [False, True])
def test_a_busy_machine_does_not_make_images_collapse(seed, is_spiky):
    dice = random.Random(seed)
    device = Device(5e-8, fixed=0.005)
    for _ in range(30):
        device.draw(pace.Kind.MOVING)
    device.noise = lambda: (
        dice.choices([5.0, 1.0], [0.15, 0.85])[0] if is_spiky else dice.lognormvariate(0.0, 0.4)
    )
    scales = [device.draw(pace.Kind.MOVING) for _ in range(500)]
    assert min(scales) ** 2 >= 0.99 * pace.MIN_FRACTION
    assert sum(scales) / len(scales) >= 0.8 * 0.5  # without noise it is half


@pytest.mark.parametrize("haze", [0.6, 0.9])
def test_images_stay_in_time_while_training_removes_haze(haze):
    device, times = Device(0.0), []
    for image in range(30):
        device.cost, device.shown = 1.5e-6 + 1.4e-5 * haze**image, NOTHING
        device.draw(pace.Kind.TRAINED, training=True)
        times.append(sum(device.strips))
    assert max(times[5:]) <= pace.Kind.TRAINED.value[1]
    assert times[-1] > 0.4 * pace.Kind.TRAINED.value[0]


def divide(division, seconds, image, slices, *, share, is_moving=False, trained=60.0):
    """Train and draw for so many seconds; return the training time and the waits between images."""
    clock = begin = training = 0.0
    waits = []
    while clock < seconds:
        allowed = division.training_time(share, is_moving=is_moving, trained=trained)
        if allowed:
            spent = max(slices(), allowed)
            division.trained(spent)
            training += spent
        else:
            waits.append(clock - begin)
            spent = image()
            division.served(spent)
            begin = clock + spent
        clock += spent
    return training / clock, waits


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.95])
@pytest.mark.parametrize("is_moving", [False, True])
def test_training_gets_its_share_whatever_a_slice_takes(share, is_moving):
    dice = random.Random(5)
    drawn, slices = (lambda: dice.uniform(0.02, 0.06)), (lambda: dice.uniform(0.005, 0.02))
    got, _ = divide(pace.Pace(), 100.0, drawn, slices, share=share, is_moving=is_moving)
    assert got == pytest.approx(0.5 * share if is_moving else share, abs=0.05)


@pytest.mark.parametrize(("image", "least"), [(0.05, 0.95), (0.15, 0.9), (3.0, 0.35)])
def test_a_page_that_is_only_watched_costs_little_and_is_served_in_time(image, least):
    got, waits = divide(pace.Pace(), 300.0, lambda: image, lambda: 0.1, share=None)
    assert got >= least
    assert max(waits) <= pace.MAX_WAIT + 0.1
    _, waits = divide(pace.Pace(), 100.0, lambda: 3.0, lambda: 0.1, share=None, trained=1.0)
    assert max(waits) < 0.75, "images change fastest at the start"
