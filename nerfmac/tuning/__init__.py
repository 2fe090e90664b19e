"""Which variant of each operation is quickest on this machine: measured, checked, kept.

    tune            run every variant on a run's own sizes, keep the quickest that are right
    tune_first      the same before the first training on a GPU, for which nothing is kept yet
    trials          what is run: rays, samples and gradients as in training

`nerfmac.backend.variants` lists the variants, with their reasons, and knows the choice.
"""

from nerfmac.tuning.choosing import SECONDS as SECONDS
from nerfmac.tuning.choosing import Tried as Tried
from nerfmac.tuning.choosing import Tuned as Tuned
from nerfmac.tuning.choosing import is_untuned_gpu as is_untuned_gpu
from nerfmac.tuning.choosing import try_variants as try_variants
from nerfmac.tuning.choosing import tune as tune
from nerfmac.tuning.choosing import tune_first as tune_first
from nerfmac.tuning.trials import trials as trials
