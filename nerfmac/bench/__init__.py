"""Measurements: how fast this machine computes, and how fast a model learns on it.

    benchmark         every operation by kernel and by reference, and a picture
    compare_models    the vanilla model beside the hash model: quality over seconds of training
    time_film         how fast a film is rendered, encoded, and both at once
    Roofline          what a step would take on Apple's chips, estimated from its shapes
    measure_scaling   one model on ever more ranks: samples per second, quality over seconds
    plot_quality      any curves of quality over seconds of training, as a PNG

`nerfmac bench` shows these; `nerfmac.profile` says where a training step's time goes. They are
built from:

    timing, progress             a call's median and quartiles; interleaved timing; a progress bar
    launches                     the kernels that a computation launches
    ceilings                     the device's highest rates
    work, step_work              a step's least bytes and operations
    operations, frame, film      every operation with a training step's inputs; a picture; a film
    quality, plot                held-out views while a field trains; curves of their quality
    benchmarks, models, roofline the measurements above; `tables` has their lines for people
    scaling, scaling_rank, network  those of ranks, and what each of them runs
"""

from nerfmac.bench.benchmarks import STEPS as STEPS
from nerfmac.bench.benchmarks import Benchmark as Benchmark
from nerfmac.bench.benchmarks import benchmark as benchmark
from nerfmac.bench.ceilings import Ceilings as Ceilings
from nerfmac.bench.ceilings import measure_ceilings as measure_ceilings
from nerfmac.bench.film import FilmSpeed as FilmSpeed
from nerfmac.bench.film import time_film as time_film
from nerfmac.bench.launches import Build as Build
from nerfmac.bench.launches import Call as Call
from nerfmac.bench.launches import Launched as Launched
from nerfmac.bench.launches import launches as launches
from nerfmac.bench.launches import replayed as replayed
from nerfmac.bench.models import MODELS as MODELS
from nerfmac.bench.models import ModelComparison as ModelComparison
from nerfmac.bench.models import compare_models as compare_models
from nerfmac.bench.models import model_configs as model_configs
from nerfmac.bench.models import plot_models as plot_models
from nerfmac.bench.operations import computations as computations
from nerfmac.bench.plot import Curve as Curve
from nerfmac.bench.plot import Mark as Mark
from nerfmac.bench.plot import linear_axis as linear_axis
from nerfmac.bench.plot import log_axis as log_axis
from nerfmac.bench.plot import plot_quality as plot_quality
from nerfmac.bench.progress import Bar as Bar
from nerfmac.bench.progress import no_line as no_line
from nerfmac.bench.progress import trained as trained
from nerfmac.bench.quality import BACKGROUND as BACKGROUND
from nerfmac.bench.quality import HeldOutViews as HeldOutViews
from nerfmac.bench.quality import evaluation_times as evaluation_times
from nerfmac.bench.roofline import CHIPS as CHIPS
from nerfmac.bench.roofline import Chip as Chip
from nerfmac.bench.roofline import Roofline as Roofline
from nerfmac.bench.roofline import chip_named as chip_named
from nerfmac.bench.roofline import counted_work as counted_work
from nerfmac.bench.roofline import estimate as estimate
from nerfmac.bench.scaling import RankedTraining as RankedTraining
from nerfmac.bench.scaling import measure_scaling as measure_scaling
from nerfmac.bench.step_work import between_work as between_work
from nerfmac.bench.step_work import step_work as step_work
from nerfmac.bench.step_work import update_work as update_work
from nerfmac.bench.tables import ceilings_line as ceilings_line
from nerfmac.bench.timing import Timing as Timing
from nerfmac.bench.timing import measure as measure
from nerfmac.bench.timing import measure_interleaved as measure_interleaved
from nerfmac.bench.timing import quartiles as quartiles
from nerfmac.bench.timing import queue_of as queue_of
from nerfmac.bench.timing import seconds_a_call as seconds_a_call
from nerfmac.bench.work import Sizes as Sizes
from nerfmac.bench.work import Work as Work
from nerfmac.bench.work import average as average
