"""Who runs a thread's launches is that thread's own."""

from concurrent.futures import ThreadPoolExecutor

import mlx.core as mx

from nerfmac.backend.kernel import launched_by
from nerfmac.ops.occupancy_update import splat


def peaks():
    return splat(mx.array([1, 1]), mx.array([2.0, 3.0]), 3).tolist()


def test_launched_by_on_one_thread_leaves_another_threads_launches_alone():
    def zeros(_build, **call):
        return list(map(mx.zeros, call["output_shapes"], call["output_dtypes"]))

    with ThreadPoolExecutor(1) as another, launched_by(zeros):
        assert peaks() == [0.0, 0.0, 0.0]
        assert another.submit(peaks).result() == [0.0, 3.0, 0.0]
