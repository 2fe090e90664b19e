"""Distributed training with ranks: processes on one or more machines that train one model together.
Each rank stores the whole scene and the whole model, and processes a part of each step's rays.
Gradients or parameters are averaged with `mlx.core.distributed`."""

from nerfmac.ranks.lost import (
    LostRankError as LostRankError,
    noticed as noticed,
    watched as watched,
)
from nerfmac.ranks.ranks import (
    ALONE as ALONE,
    Ranks as Ranks,
    current_ranks as current_ranks,
    join as join,
    rank_given as rank_given,
)
