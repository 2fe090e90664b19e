"""Suggestions for unknown commands and options, from synonyms and then from similar spelling.

The synonyms come from instant-ngp, nerfstudio, and PyTorch, or are common guesses of new users.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path

NEAREST = 0.75  # Minimum similarity, from 0 to 1, of a suggested word to the typed word.
COMMANDS = {
    "data": "download fetch dataset datasets download-data ns-download-data",
    "capture": "process process-data ns-process-data colmap colmap2nerf sfm convert",
    "inspect": "check validate",
    "train": "ns-train fit run start instant-ngp testbed",
    "train --out RUN --resume": "resume continue",
    "view": "viewer ns-viewer gui show open ui",
    "render": "ns-render video video movie",
    "eval": "ns-eval evaluate test metrics",
    "export RUN mesh.ply": "mesh save-mesh",
    "export": "ns-export",
    "bench": "benchmark",
}
"""Synonyms of commands. The keys are the words to type after `nerfmac`."""
FLAGS = {
    "--steps": "--iterations --iters --n-iters --num-iterations --max-num-iterations "
    "--epochs --n-epochs --num-epochs --n-steps --num-steps --max-steps --training-steps",
    "--seconds": "--time --duration --max-time",
    "--optimizer.rate": "--lr --learning-rate",
    "--march.max-samples": "--batch --batch-size --target-batch-size --n-rays",
    "--device auto": "--gpu --gpus --cuda --use-gpu --device-id --metal",
    "--device cpu": "--cpu --no-gpu --no-cuda",
    "--downscale": "--resolution --res --downscale-factor --image-scale",
    "--size": "--resolution --res --width --height --image-size",
    "--max-images": "--num-images --limit",
    "--extent": "--aabb --aabb-scale --scale --bound",
    "--refine.poses": "--optimize-poses --camera-optimizer --pose-optimizer",
    "--out": "-o --output --output-dir --output-path --out-dir --save --save-dir --logdir "
    "--workspace --experiment-name --exp-name --video-output --render-output-path",
    "--path": "--camera-path --trajectory --video-camera-path --traj",
    "--overwrite": "-f --force --yes",
    "--preset": "--config --network --model-size",
    "POSITIONAL": "-i --input --path --data --scene --data-dir --datadir --dataset --source "
    "--images --image-dir --video-path --run --checkpoint --ckpt --load --load-config --load-dir "
    "--snapshot --load-snapshot --config",
    "`nerfmac export RUN mesh.ply`": "--save-mesh --mesh --marching-cubes-res",
    "`nerfmac render RUN`": "--render --save-video --video-n-seconds --video-fps",
    "`nerfmac eval RUN`": "--eval --test --test-transforms",
    "`nerfmac view SCENE`": "--gui --vis --viewer --view",
    "NERFMAC_LOG=debug before `nerfmac`": "-v --verbose --debug",
}
"""Names of options in other programs. Each key is the corresponding option, positional argument, or
command of nerfmac."""


def known_command(word: str, commands: Collection[str]) -> str:
    """Suggest what to type instead of an unknown command."""
    if (path := Path(word)).exists():
        command = "view" if (path / "config.json").is_file() else "train"
        return f"a command must come first; type `nerfmac {command} {word}`"
    for meant, synonyms in COMMANDS.items():
        if word in synonyms.split():
            return f"type `nerfmac {meant}`"
    if word.startswith("-"):
        return "a command must come first, such as `nerfmac train SCENE`; see `nerfmac --help`"
    expected = f"expected one of: {', '.join(commands)}; see `nerfmac --help`"
    return similar(word, commands, expected)


def known_flag(command: str, flag: str, flags: Mapping[str, str], positionals: str) -> str:
    """Suggest what to type instead of the unknown option `flag`. `flags` contains the help text of
    each option, and `positionals` the positional arguments, such as `RUN FILE`."""
    for meant, synonyms in FLAGS.items():
        if flag not in synonyms.split():
            continue
        if (known := meant.split()[0]) in flags:
            return f"type {meant}: {first_sentence(flags[known])}"
        if meant == "POSITIONAL" and positionals:
            return f"this argument needs no option; type `nerfmac {command} {positionals}`"
        if meant[0] in "`N":
            return f"type {meant}"
    of_a_part = [name for name in flags if name.rpartition(".")[2] == flag.removeprefix("--")]
    if of_a_part:
        return f"type {' or '.join(of_a_part)}"
    return similar(flag, flags, f"`nerfmac {command} --help-all` lists the options")


def first_sentence(text: str) -> str:
    """Return `text` up to and including the first full stop that is followed by a space."""
    first, end, _ = text.partition(". ")
    return first + end.rstrip()


def similar(word: str, known: Collection[str], otherwise: str) -> str:
    """Return a question with the known word that is most similar to `word`, or `otherwise` if no
    word is similar. Leading dashes are ignored."""
    bare = {name.lstrip("-"): name for name in known}
    near = get_close_matches(word.lstrip("-"), bare, n=1, cutoff=NEAREST)
    return f"did you mean {bare[near[0]]}?" if near else otherwise
