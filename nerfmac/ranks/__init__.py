"""Distributed training with ranks: processes on one or more machines that train one model together.
Each rank stores the whole scene and the whole model, and processes a part of each step's rays.
Gradients or parameters are averaged with `mlx.core.distributed`."""

from nerfmac.ranks.lost import LostRankError as LostRankError
from nerfmac.ranks.lost import noticed as noticed
from nerfmac.ranks.lost import watched as watched
from nerfmac.ranks.ranks import ALONE as ALONE
from nerfmac.ranks.ranks import Ranks as Ranks
from nerfmac.ranks.ranks import current_ranks as current_ranks
from nerfmac.ranks.ranks import join as join
from nerfmac.ranks.ranks import rank_given as rank_given
