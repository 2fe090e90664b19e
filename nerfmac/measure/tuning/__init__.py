"""Which variant of each operation is quickest on this machine: measured, checked, kept.

    tune            run every variant on a run's own sizes, keep the quickest that are right
    trials          what is run: rays, samples and gradients as in training

`nerfmac.backend.variants` lists the variants, with their reasons, and knows the choice.
"""

from nerfmac.measure.tuning.choosing import SECONDS as SECONDS
from nerfmac.measure.tuning.choosing import Tried as Tried
from nerfmac.measure.tuning.choosing import Tuned as Tuned
from nerfmac.measure.tuning.choosing import try_variants as try_variants
from nerfmac.measure.tuning.choosing import tune as tune
from nerfmac.measure.tuning.trials import trials as trials
