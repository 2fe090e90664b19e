"""Ranks: processes, on one machine or several, that train one model together.

`mlx.launch -n 4 -- nerfmac train ...` starts them, or anything else that sets MLX's environment
variables. Each rank has the whole scene and the whole model, and draws its own share of a step's
rays; what they learn is exchanged by `mlx.core.distributed`. Alone, nothing here does anything.
"""

from nerfmac.ranks.local import start_local as start_local
from nerfmac.ranks.lost import LostRankError as LostRankError
from nerfmac.ranks.lost import noticed as noticed
from nerfmac.ranks.lost import watched as watched
from nerfmac.ranks.ranks import ALONE as ALONE
from nerfmac.ranks.ranks import Ranks as Ranks
from nerfmac.ranks.ranks import current_ranks as current_ranks
from nerfmac.ranks.ranks import join as join
from nerfmac.ranks.ranks import rank_given as rank_given
