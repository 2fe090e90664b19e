"""Measurements: how fast this machine computes, and how fast a model learns on it.

    benchmark         every operation by kernel and by reference, and a picture
    compare_models    the vanilla model beside the hash model: quality over seconds of training
    time_film         how fast a film is rendered, encoded, and both at once
    Roofline          what a step would take on Apple's chips, estimated from its shapes
    measure_scaling   one model on ever more ranks: samples per second, quality over seconds
    ring_of_macs      what ranks on Macs would gain, estimated from the bytes that they send
    plot_quality      any curves of quality over seconds of training, as a PNG

`nerfmac bench` shows these; `nerfmac.measure.profile` says where a training step's time goes. They are
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

from nerfmac.measure.bench.benchmarks import STEPS as STEPS
from nerfmac.measure.bench.benchmarks import Benchmark as Benchmark
from nerfmac.measure.bench.benchmarks import benchmark as benchmark
from nerfmac.measure.bench.film import FilmSpeed as FilmSpeed
from nerfmac.measure.bench.film import time_film as time_film
from nerfmac.measure.bench.models import MODELS as MODELS
from nerfmac.measure.bench.models import ModelComparison as ModelComparison
from nerfmac.measure.bench.models import compare_models as compare_models
from nerfmac.measure.bench.models import model_configs as model_configs
from nerfmac.measure.bench.models import plot_models as plot_models
from nerfmac.measure.bench.network import ring_of_macs as ring_of_macs
from nerfmac.measure.bench.operations import computations as computations
from nerfmac.measure.bench.plot import Curve as Curve
from nerfmac.measure.bench.plot import Mark as Mark
from nerfmac.measure.bench.plot import plot_quality as plot_quality
from nerfmac.measure.bench.progress import Bar as Bar
from nerfmac.measure.bench.progress import no_line as no_line
from nerfmac.measure.bench.progress import trained as trained
from nerfmac.measure.bench.quality import BACKGROUND as BACKGROUND
from nerfmac.measure.bench.quality import HeldOutViews as HeldOutViews
from nerfmac.measure.bench.quality import evaluation_times as evaluation_times
from nerfmac.measure.bench.roofline import CHIPS as CHIPS
from nerfmac.measure.bench.roofline import Chip as Chip
from nerfmac.measure.bench.roofline import Roofline as Roofline
from nerfmac.measure.bench.roofline import chip_named as chip_named
from nerfmac.measure.bench.roofline import counted_work as counted_work
from nerfmac.measure.bench.roofline import estimate as estimate
from nerfmac.measure.bench.scaling import RankedTraining as RankedTraining
from nerfmac.measure.bench.scaling import measure_scaling as measure_scaling
from nerfmac.measure.bench.step_work import between_work as between_work
from nerfmac.measure.bench.step_work import step_work as step_work
from nerfmac.measure.bench.step_work import update_work as update_work
from nerfmac.measure.bench.tables import ceilings_line as ceilings_line
from nerfmac.measure.bench.work import Sizes as Sizes
from nerfmac.measure.bench.work import Work as Work
from nerfmac.measure.bench.work import average as average
from nerfmac.measure.ceilings import Ceilings as Ceilings
from nerfmac.measure.ceilings import measure_ceilings as measure_ceilings
from nerfmac.measure.launches import Build as Build
from nerfmac.measure.launches import Call as Call
from nerfmac.measure.launches import Launched as Launched
from nerfmac.measure.launches import launches as launches
from nerfmac.measure.launches import replayed as replayed
from nerfmac.measure.timing import Timing as Timing
from nerfmac.measure.timing import measure as measure
from nerfmac.measure.timing import measure_interleaved as measure_interleaved
from nerfmac.measure.timing import quartiles as quartiles
from nerfmac.measure.timing import queue_of as queue_of
from nerfmac.measure.timing import seconds_a_call as seconds_a_call
