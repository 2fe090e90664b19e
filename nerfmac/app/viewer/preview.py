"""`Preview`: the run that the viewer shows until the images of a new run are decoded."""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from pathlib import Path

from nerfmac.app.run import Run, Training, config_of
from nerfmac.app.run.configuration import check_memory, facts_of
from nerfmac.app.run.start import beginning
from nerfmac.app.scenes import Scene
from nerfmac.config import Config, override
from nerfmac.training.goal import Goal
from nerfmac.training.method import Method
from nerfmac.training.model import Model
from nerfmac.training.resolve import resolve


@dataclass
class Preview:
    """Run in an approximate initial state, which is rendered but not trained, and the arguments of
    the training that replaces it."""

    scene: Scene
    config: Config | str
    method: Method
    folder: Path | None
    run: Run = field(init=False)

    def __post_init__(self) -> None:
        """Create the run. `InputError` is raised in the same cases as by `Run.begin`, except for
        images that cannot be decoded."""
        facts = facts_of(self.scene)
        self.config = resolve(config_of(self.config), facts)
        model = Model(self.config, self.scene.bounds, facts.cameras, self.method)
        check_memory(model, self.scene)
        state = model.preview(facts.cameras)
        self.run = Run(self.scene.recorded(), model, state, source=self.scene)

    def refined(self, **switches: bool) -> "Preview":
        """Return a preview with other refinements (see `Run.refine`)."""
        assert isinstance(self.config, Config)
        config = override(self.config, refine=switches)
        other = Preview(self.scene, config, self.method, self.folder)
        other.run.scene = replace(other.run.scene, up=self.run.scene.up)
        return other

    def beginning(self, goal: Goal) -> Generator[None, None, Training]:
        """Return the training of the run, and save it if it has a folder. The images of the scene
        are decoded now unless they are already. If `goal` has a time limit, the preset `auto` is
        adapted to the speed of the device, with None between the parts of this measurement."""
        assert isinstance(self.config, Config)
        run = yield from beginning(
            self.scene, self.config, goal, method=self.method, progress=False
        )
        run.scene = replace(run.scene, up=self.run.scene.up)  # The user may have changed it.
        return Training(run) if self.folder is None else Training.begin(run, self.folder)
