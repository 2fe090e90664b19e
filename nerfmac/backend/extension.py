"""Build and load the MLX operation in extension.cpp that runs CPU kernels.

The operation is built once against the installed MLX. Python can pass arrays to the operation only
if it was built with the same nanobind ABI as MLX, and MLX's C++ interface changes between releases.
Therefore, nerfmac builds the operation only for `VERSIONS` and tests it before a kernel uses it.
Only CPU kernels require this operation and nanobind.
"""

import importlib.util
import platform
import re
import sys
import sysconfig
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import mlx.core as mx

from nerfmac.backend.build import BuildError, Library, compiler, shared_library
from nerfmac.backend.host import processors
from nerfmac.common import pip_install

VERSIONS = {"mlx": ("0.32.3", "0.33"), "nanobind": ("3.0.1", "4")}
"""Supported versions of each package, from the first version up to but excluding the second."""

_NAME = "nerfmac_cpu_extension"


@cache
def load_extension() -> ModuleType:
    """Return the extension module. On the first call, the module is built and loaded."""
    versions = {package: _fitting_version(package) for package in VERSIONS}
    nanobind = _folder("nanobind")
    sources = (
        ("extension.cpp", Path(__file__).with_name("extension.cpp").read_text()),
        ("nanobind.cpp", (nanobind / "src" / "nb_combined.cpp").read_text()),
        # The digest in the library name depends on this comment, and so on the versions.
        ("versions.cpp", f"// mlx {versions['mlx']}, nanobind {versions['nanobind']}\n"),
    )
    path = shared_library(Library(_NAME, sources, _flags(Path(mx.__file__).parent, nanobind)))
    try:
        module = _loaded(path)
    except (ImportError, TypeError) as error:
        built_with = " and ".join(map(" ".join, versions.items()))
        reason = str(error).splitlines()[0]
        message = f"the extension built with {built_with} fails to load: {reason}"
        raise BuildError(message) from error
    module.start_workers(processors())
    return module


def check_requirements() -> None:
    """Raise `BuildError` if MLX, nanobind, or a compiler is missing, without building anything."""
    for package in VERSIONS:
        _fitting_version(package)
    compiler()


def _fitting_version(package: str) -> str:
    """Return the installed version of a package. Raises `BuildError` if it is not in `VERSIONS`."""
    first, end = VERSIONS[package]
    advice = pip_install(f"{package}>={first},<{end}")
    try:
        installed = version(package)
    except PackageNotFoundError as error:
        raise BuildError(f"{package} is not installed; {advice}") from error
    if not _release(first) <= _release(installed) < _release(end):
        raise BuildError(f"CPU kernels do not support {package} {installed}; {advice}")
    return installed


def _release(text: str) -> tuple[int, ...]:
    """Return the numbers at the start of a version, such as (0, 33, 0) for `0.33.0.dev5`."""
    numbers = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()


def _folder(package: str) -> Path:
    """Return the folder that contains a package, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise BuildError(f"{package} is installed, but cannot be found")
    return Path(spec.origin).parent


def _flags(mlx: Path, nanobind: Path) -> tuple[str, ...]:
    link = ("-undefined", "dynamic_lookup") if platform.system() == "Darwin" else ()
    return (
        "-std=c++20",
        "-O2",
        "-fvisibility=hidden",
        "-DNB_DOMAIN=mlx",
        f"-DNERFMAC_EXTENSION={_NAME}",
        f"-I{nanobind / 'include'}",
        f"-I{nanobind / 'src'}",
        f"-I{nanobind / 'ext' / 'robin_map' / 'include'}",
        f"-I{mlx / 'include'}",
        f"-I{sysconfig.get_path('include')}",
        f"-L{mlx / 'lib'}",
        "-lmlx",
        f"-Wl,-rpath,{mlx / 'lib'}",
        "-pthread",
        *link,
    )


def _loaded(path: Path) -> ModuleType:
    """Load and test the module at `path`. If the test fails, `TypeError` is raised."""
    spec = importlib.util.spec_from_file_location(_NAME, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.length(mx.zeros(3))
    sys.modules[_NAME] = module
    return module
