"""Ranks: processes, on one machine or several, that train one model together.

`mlx.launch -n 4 -- nerfmac train ...` starts them, or any program that sets MLX's environment
variables. Each rank has the whole scene and the whole model, and draws its share of a step's rays.
Gradients or parameters are averaged by `mlx.core.distributed`. A single process exchanges nothing.
"""

from nerfmac.ranks.lost import LostRankError as LostRankError
from nerfmac.ranks.lost import noticed as noticed
from nerfmac.ranks.lost import watched as watched
from nerfmac.ranks.ranks import ALONE as ALONE
from nerfmac.ranks.ranks import Ranks as Ranks
from nerfmac.ranks.ranks import current_ranks as current_ranks
from nerfmac.ranks.ranks import join as join
from nerfmac.ranks.ranks import rank_given as rank_given
