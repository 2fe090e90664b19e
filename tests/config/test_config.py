"""Configuration: strict parsing, complete output, and use of every field."""

import json
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise

import pytest

from nerfmac import Config, InputError
from nerfmac.app.run.configuration import facts_of
from nerfmac.config import (
    PRESET_NAMES,
    HashGridConfig,
    MarchConfig,
    NetworkConfig,
    OccupancyConfig,
    OptimizerConfig,
    RefineConfig,
    TrainConfig,
    override,
)
from nerfmac.config.presets import PRESETS, flattened, preset, vanilla
from nerfmac.geometry import Bounds, Camera, Lens
from nerfmac.training.resolve import SceneFacts, for_pace, resolve, settled

PARTS = [each.name for each in fields(Config) if is_dataclass(getattr(Config(), each.name))]
NUMBERS = [
    (part, each.name)
    for part in PARTS
    for each in fields(getattr(Config(), part))
    if isinstance(getattr(getattr(Config(), part), each.name), int | float)
]


def changed() -> Config:
    return Config(
        preset="base",
        seed=7,
        grid=HashGridConfig(levels=4, features=8, finest=300),
        networks=NetworkConfig(width=32, color_layers=3),
        march=MarchConfig(near=0.03, cone=0.0),
        occupancy=OccupancyConfig(resolution=48, decay=0.9),
        optimizer=OptimizerConfig(rate=3e-3, l2=0.0, average=0.5),
        train=TrainConfig(blend="linear"),
        refine=RefineConfig(poses=True, pose_rate=1e-3),
    )


@pytest.mark.parametrize("config", [*PRESETS.values(), changed()])
def test_a_record_survives_the_way_through_json(config):
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_its_text_lists_what_differs_from_the_preset():
    config = replace(override(PRESETS["small"], train={"steps": 9, "huber": 0.2}), seed=3)
    lines = ["Config(preset small with", "seed 3, not 0", "train.steps 9, not 5000"]
    lines += ["train.huber 0.2, not 0.1)"]
    assert [" ".join(line.split()) for line in repr(config).splitlines()] == lines
    assert repr(PRESETS["tiny"]) == "Config(preset tiny)"


@pytest.mark.parametrize("name", [name for name in PRESET_NAMES if name != "base"])
def test_a_presets_name_without_its_numbers_is_refused(name):
    for given in ({}, {"seed": 3}, {"train": TrainConfig()}):
        with pytest.raises(InputError, match=rf"PRESETS\['{name}'\]"):
            Config(preset=name, **given)
    assert replace(PRESETS[name], seed=3).preset == name


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"speed": 1}, "config: speed"),
        ({"train": {"step": 1}}, "config: train: step"),
        ({"grid": {"levels": 8, "level": 8}}, "config: grid: level"),
    ],
)
def test_an_unknown_key_is_refused_with_its_path_and_what_there_is(values, path):
    with pytest.raises(InputError, match=rf"^{path} is unknown; expected one of: \w+, "):
        Config.from_json(values)


@pytest.mark.parametrize(
    ("values", "path"),
    [
        (None, "config"),
        ({"train": 3}, "config: train"),
        ({"train": {"steps": "9"}}, "config: train: steps"),
        ({"train": {"blend": 1}}, "config: train: blend"),
        ({"refine": {"poses": 1}}, "config: refine: poses"),
        ({"march": {"near": True}}, "config: march: near"),
        ({"grid": {"finest": 512.0}}, "config: grid: finest"),
        ({"march": {"near": float("nan")}}, "config: march: near"),
        ({"march": {"near": 10**400}}, "config: march: near"),
        ({"preset": 4}, "config: preset"),
    ],
)
def test_a_wrong_type_is_refused_with_its_path(values, path):
    with pytest.raises(InputError, match=rf"^{path} is "):
        Config.from_json(values)


@pytest.mark.parametrize(("part", "name"), NUMBERS)
def test_no_number_may_be_nan_or_impossible(part, name):
    for value in (float("nan"), -1, "1"):
        with pytest.raises(InputError, match=rf"^{part}\.{name} is "):
            override(Config(), **{part: {name: value}})


@pytest.mark.parametrize(
    ("part", "change", "path"),
    [
        ("grid", {"levels": 1}, "grid.levels"),
        ("grid", {"features": 3}, "grid.features"),
        ("grid", {"levels": 9}, r"grid.levels \* grid.features"),
        ("grid", {"log2_entries": 30}, "grid.log2_entries"),
        ("networks", {"width": 24}, "networks.width"),
        ("networks", {"color_layers": 9}, "networks.color_layers"),
        ("networks", {"width": 128, "density_layers": 3}, "networks.width"),
        ("march", {"cone": 0.5}, "march.cone"),
        ("occupancy", {"resolution": 100}, "occupancy.resolution"),
        ("occupancy", {"decay": 1.5}, "occupancy.decay"),
        ("optimizer", {"beta2": 1.0}, "optimizer.beta2"),
        ("optimizer", {"beta1": 0.95, "beta2": 0.9}, "optimizer.beta2"),
        ("optimizer", {"hold": 1.0}, "optimizer.hold"),
        ("march", {"max_samples": 10}, "march.max_samples"),
        ("train", {"rays": 2**17}, "train.rays"),
        ("train", {"blend": "gamma"}, "train.blend"),
        ("refine", {"pose_rate": 0.0}, "refine.pose_rate"),
        ("refine", {"poses": 1}, "refine.poses"),
        ("vanilla", {"skip": 7}, "vanilla.skip"),
        ("train", {"depth": -1.0}, "train.depth"),
        ("train", {"steps": 1.5}, "train.steps"),
    ],
)
def test_an_impossible_number_is_refused_with_its_path(part, change, path):
    with pytest.raises(InputError, match=rf"^{path} is "):
        override(Config(), **{part: change})
    part_and_name = path.replace(".", "(: |[.])")  # of a wrong type: "config: grid: levels is"
    with pytest.raises(InputError, match=rf"{part_and_name} is "):
        Config.from_json({part: change})


@pytest.mark.parametrize(
    ("device", "memory", "name"),
    [
        ("cpu", 2**40, "small"),
        ("metal", 8 * 2**30, "base"),
        ("metal", 8 * 2**30 * 2 // 3, "base"),  # value reported by Metal on a Mac with 8 GB
        ("metal", int(2.4e9), "base"),
        ("metal", int(2.4e9) - 1, "small"),
        ("cuda", 80 * 2**30, "base"),
        ("cuda", 2 * 2**30, "small"),
    ],
)
def test_auto_chooses_by_device_and_memory(device, memory, name):
    assert for_pace(preset("auto", device, memory)) == PRESETS[name]


def test_the_rate_holds_and_then_falls_exponentially_to_its_final_fraction():
    schedule = OptimizerConfig(rate=0.02, hold=0.25, final_rate=0.01)
    assert [schedule.factor_at(p, 10**6) for p in (0.0, 0.1, 0.25)] == [1.0] * 3
    assert schedule.factor_at(1.0, 10**6) == pytest.approx(0.01)
    assert schedule.factor_at(0.625, 10**6) == pytest.approx(0.1)  # half way down: the root
    later = [schedule.factor_at(0.25 + 0.05 * i, 10**6) for i in range(16)]
    ratios = [b / a for a, b in pairwise(later)]
    assert ratios == pytest.approx([0.01 ** (1 / 15)] * 15)


def test_the_rate_rises_over_the_warm_up_whatever_the_progress():
    schedule = OptimizerConfig(rate=0.02, warmup_steps=4, hold=0.0, final_rate=0.01)
    assert [schedule.factor_at(0.0, step) for step in range(6)] == pytest.approx(
        [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    )
    assert schedule.factor_at(0.5, 1) == pytest.approx(0.5 * 0.1)
    assert OptimizerConfig(warmup_steps=0).factor_at(0.0, 0) == 1.0


@pytest.mark.parametrize(
    "settings",
    [
        {"march": {"near": None}, "grid": {"finest": None}},
        {"march": {"near": 0.0}, "grid": {"finest": 512}},
        {"march": {"near": 0.7}, "refine": {"exposures": None}},
    ],
)
def test_a_setting_that_may_be_automatic_is_read_as_it_is_written(settings):
    config = override(PRESETS["small"], **settings)
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_the_finest_level_has_five_cells_for_four_pixels_unless_it_is_given():
    def finest(pixels_per_unit, **grid):
        lens = Lens(40, 30, 2.0 * pixels_per_unit, 2.0 * pixels_per_unit, 20.0, 15.0)
        camera = Camera.look_at((0.5, 0.5, 2.5), (0.5, 0.5, 0.5), (0.0, 1.0, 0.0), lens)
        facts = SceneFacts(Bounds(1.0), cameras=[camera])
        return resolve(override(Config(), grid=grid), facts).grid.finest

    assert finest(835.0) == 1044
    assert finest(835.0, finest=300) == 300
    assert finest(1.0, coarsest=20) == 80
    assert finest(1e5) == 4096
    assert settled(Config(), Bounds(1.0)).grid.finest == 1024


def test_what_has_no_effect_around_an_object_is_disabled_there():
    config = override(Config(), march={"cone": 0.01}, train={"occlusion": 0.3})
    for extent, expected in ((1.0, (0.0, 0.0, 0.0, 0.0)), (2.5, (0.01, 0.01, 1.0, 0.3))):
        ready = settled(config, Bounds(extent))
        march, train = ready.march, ready.train
        found = march.cone, march.thin_below, train.gradient_scaling, train.occlusion
        assert found == expected


def test_a_resolved_configuration_has_no_automatic_setting_and_is_not_resolved_again(scene):
    facts, views = facts_of(scene), scene.views("train")
    ready = resolve(PRESETS["tiny"], facts, views)
    assert None not in dict(flattened(ready.to_json())).values()
    assert resolve(ready, facts, views) == settled(ready, scene.bounds) == ready
    known = dict(flattened(settled(PRESETS["tiny"], scene.bounds).to_json()))
    assert None not in known.values()


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "auto"])
def test_the_samples_of_vanilla_are_enough_for_its_rays(name):
    config = vanilla(PRESETS[name])
    coarse, fine = config.vanilla.coarse, config.vanilla.fine
    assert config.train.rays * (2 * coarse + fine) <= config.march.max_samples


def test_the_widest_networks_have_four_hidden_layers():
    four = {"width": 128, "density_layers": 1, "color_layers": 3}
    assert override(Config(), networks=four).networks.width == 128
