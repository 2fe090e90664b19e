"""Launch ranks on this machine, like `mlx.launch -n N`. With NCCL, each rank uses a separate
GPU."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_HOST = "127.0.0.1"

_PORTS = range(20000, 32768)
"""Range of ports for ranks, below the ephemeral ports of Linux and macOS. A rank takes seconds to
start. In the meantime, the system could assign an ephemeral port to another program."""


def start_local(
    command: Sequence[str], count: int, folder: Path, *, backend: str = "ring", **popen: Any
) -> list[subprocess.Popen[Any]]:
    """Start a command as `count` connected ranks on this machine, and return the processes in rank
    order.

    A single rank does not communicate. The list of hosts is written to an existing `folder`. With
    the backend `nccl`, each rank uses a separate GPU. `popen` are arguments for `subprocess.Popen`.
    """
    if count == 1:
        own = {name: value for name, value in os.environ.items() if name != "MLX_RANK"}
        return [subprocess.Popen(command, env=own, **popen)]
    ports = _free_ports(count)
    hosts = folder / "hosts.json"
    hosts.write_text(json.dumps([[f"{_HOST}:{port}"] for port in ports]), encoding="utf-8")
    shared = {"MLX_HOSTFILE": str(hosts)}
    if backend == "nccl":
        shared = {"NCCL_HOST_IP": _HOST, "NCCL_PORT": str(ports[0]), "MLX_WORLD_SIZE": str(count)}
    started = []
    for rank in range(count):
        own = {"MLX_RANK": str(rank)}
        if backend == "nccl":
            own["CUDA_VISIBLE_DEVICES"] = _gpus()[rank] if _gpus() else str(rank)
        started.append(subprocess.Popen(command, env={**os.environ, **shared, **own}, **popen))
    return started


def _gpus() -> list[str]:
    return [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]


def _free_ports(count: int) -> list[int]:
    ports: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((_HOST, port))
            ports.append(port)
        if len(ports) == count:
            break
    return ports
