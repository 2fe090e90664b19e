"""What ranks on Macs would gain, by the bytes they send and the time of a step: an ESTIMATE.

A ring of N ranks sends 2 (N - 1) / N times an array's bytes over each link to sum it, in 2 (N - 1)
messages (Patarasuk and Yuan 2009). Links run at their nominal rate, so that no exchange is quicker;
the step's time is estimated (`nerfmac.measure.bench.roofline`) or measured. Nobody has measured the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from nerfmac.config import Config
from nerfmac.config.ranks import EVERY
from nerfmac.ranks.ranks import LARGE
from nerfmac.training.late import late_ones
from nerfmac.training.trainer import Trainer

COUNTS = (2, 4, 8)


class Link(NamedTuple):
    """A network between neighbours of the ring."""

    name: str
    rate: float  # 10^9 bytes a second, nominal
    latency: float  # seconds that a message takes, about


LINKS = (
    Link("Thunderbolt 5", 10.0, 1e-4),
    Link("Thunderbolt 4", 5.0, 1e-4),
    Link("10 Gb Ethernet", 1.25, 1e-4),
    Link("1 Gb Ethernet", 0.125, 2e-4),
)


class Sent(NamedTuple):
    """Bytes of a rank's exchange."""

    at_once: int  # networks' gradients
    late: int  # tables' gradients, where `ranks.late` says so

    @property
    def all(self) -> int:
        """Both."""
        return self.at_once + self.late


def bytes_sent(config: Config) -> Sent:
    """What an exchange holds: large arrays as `ranks.words` says, small ones as float32."""
    field = Trainer(config, 1.0).field
    large = 2 if config.ranks.words == "bfloat16" else 4
    sizes = {name: prod(shape) for name, shape in field.shapes.items()}
    sent = {name: size * (large if size >= LARGE else 4) for name, size in sizes.items()}
    late = sum(sent[name] for name in late_ones(sizes, field.tables))
    return Sent(at_once=sum(sent.values()) - late, late=late)


def exchange_seconds(sent: int, ranks: int, link: Link) -> float:
    """The time in which a ring of `ranks` sums `sent` bytes."""
    others = ranks - 1
    return 2 * others / ranks * sent / (1e9 * link.rate) + 2 * others * link.latency


def speed_up(step: float, exchange: float, ranks: int, every: int) -> float:
    """Samples a second, over those of one rank; times are in seconds."""
    return ranks * step / (step + exchange / every)


def speed_up_late(step: float, at_once: float, late: float, ranks: int) -> float:
    """The same, where the exchange `late` goes on beside the next step."""
    return ranks * step / max(step + at_once, late)


def ring_of_macs(config: Config, step: float, where: str) -> Iterator[str]:
    """A table for people: what ranks gain whose `step` takes so many seconds, `where` it does."""
    sent = bytes_sent(config)
    yield f"ESTIMATE that nobody has measured: ranks that take {1e3 * step:.3g} ms a step"
    yield f"({where}) and exchange {sent.all / 1e6:.3g} MB at a link's nominal rate, in a ring;"
    yield "times the samples a second of one, by --ranks.every, and with --ranks.late"
    shown = "".join(f"{every:8}" for every in EVERY) + f"{'late':>8}"
    yield f"{'':16}{'ranks':>6}{'exchange':>12}{shown}"
    for link in LINKS:
        for ranks in COUNTS:
            exchange, at_once, late = (
                exchange_seconds(part, ranks, link) for part in (sent.all, *sent)
            )
            gains = [speed_up(step, exchange, ranks, every) for every in EVERY]
            gains.append(speed_up_late(step, at_once, late, ranks))
            shown = "".join(f"{gain:8.2f}" for gain in gains)
            yield f"{link.name:16}{ranks:6}{1e3 * exchange:9.1f} ms{shown}"
