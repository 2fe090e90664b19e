"""One of the ranks that `scaling` starts: `python -m nerfmac.measure.bench.scaling_rank IN OUT`."""

from __future__ import annotations

import sys
from pathlib import Path

from nerfmac.backend import choose_device
from nerfmac.checks import InputError
from nerfmac.config import Config
from nerfmac.files import read_json, write_json
from nerfmac.measure.bench.scaling import follow
from nerfmac.ranks import LostRankError, join
from nerfmac.scenes import load_scene


def main(request: Path, found: Path) -> None:
    """Train as the JSON file `request` says; the first rank writes what came of it to `found`."""
    asked = read_json(request)
    choose_device(asked["device"])
    ranks = join()
    scene = load_scene(asked["scene"], **asked["options"])
    training = follow(scene, Config.from_json(asked["config"]), asked["seconds"])
    if ranks.is_first:
        write_json(found, training.to_json())


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except (InputError, LostRankError) as error:
        print(f"nerfmac: {error}", file=sys.stderr)
        sys.exit(2)
