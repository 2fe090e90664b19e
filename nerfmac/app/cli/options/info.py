"""Arguments of `nerfmac info`."""

from __future__ import annotations

from dataclasses import dataclass

from nerfmac.app.cli.choices import Device


@dataclass(frozen=True)
class Arguments:
    """Show the device, the backend and variant of every operation, and the folders of nerfmac."""

    device: Device = "auto"
    """Device to describe. auto uses the GPU if available. [default: auto]"""
