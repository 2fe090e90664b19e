"""Options of the commands. These modules import neither MLX nor NumPy, so that help pages appear
immediately."""

from nerfmac.app.cli.options import create, machine, use

OPTIONS: dict[str, type] = {
    name: getattr(module, name.title())
    for module, names in {
        create: ("data", "capture", "inspect", "train"),
        use: ("view", "render", "eval", "export", "report"),
        machine: ("info", "tune", "bench", "profile", "selftest"),
    }.items()
    for name in names
}
"""Dataclass with the options of each command."""
