"""Kernels compiled for the CPU: every index once, in the graph, repeatable."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend.cpu_kernel import CpuKernel
from nerfmac.backend.sources import dialect_source

HEADER = dialect_source("cpu")


def like(x):
    return {"output_shapes": [x.shape], "output_dtypes": [x.dtype], "grid": (x.size, 1, 1)}


# y = x^3 and its gradient, as two kernels of one template
CUBE = CpuKernel(
    "toy_cube",
    ["x"],
    ["y"],
    "const uint i = thread_position_in_grid.x;if (i < uint(x_shape[0])) y[i] = x[i] * x[i] * x[i];",
    HEADER,
)
CUBE_GRADIENT = CpuKernel(
    "toy_cube_gradient",
    ["x", "gradient"],
    ["d_x"],
    "const uint i = thread_position_in_grid.x; d_x[i] = N * x[i] * x[i] * gradient[i];",
    HEADER,
)


@mx.custom_function
def cube(x):
    return CUBE(inputs=[x], **like(x))[0]


@cube.vjp
def cube_vjp(x, cotangent, _output):
    return CUBE_GRADIENT(inputs=[x, cotangent], template=[("N", 3)], **like(x))[0]


def test_a_kernel_is_an_operation_like_any_other_in_a_compiled_gradient():
    x = mx.random.normal((1001,), key=mx.random.key(1))
    step = mx.compile(mx.value_and_grad(lambda x: (mx.sin(cube(2.0 * x)) + x).sum()))
    for scale in (1.0, 0.5):  # the second call runs the graph that the first has compiled
        value, gradient = step(scale * x)
        want = np.array(scale * x, np.float64)
        assert float(value) == pytest.approx((np.sin(8 * want**3) + want).sum(), rel=1e-4)
        np.testing.assert_allclose(
            np.array(gradient), np.cos(8 * want**3) * 24 * want**2 + 1, rtol=1e-3, atol=1e-3
        )


@pytest.mark.parametrize(
    "grid",
    [(1, 1, 1), (7, 1, 1), (1031, 1, 1), (5, 3, 1), (1, 17, 1), (33, 1, 9), (3, 5, 7), (257, 3, 2)],
)
@pytest.mark.parametrize("rows_own_outputs", [False, True])
def test_each_index_of_a_grid_is_visited_once(grid, rows_own_outputs):
    width, height, depth = grid
    source = f"""
    const uint3 p = thread_position_in_grid;
    visits[(p.z * {height} + p.y) * {width} + p.x] += 1 + start[0];
    """
    count = CpuKernel("toy_count", ["start"], ["visits"], source, HEADER, rows_own_outputs)
    (visits,) = count(
        inputs=[mx.zeros(1, mx.int32)],
        output_shapes=[(depth, height, width)],
        output_dtypes=[mx.int32],
        grid=grid,
        init_value=0,
    )
    assert (np.array(visits) == 1).all()


def test_sums_of_an_accumulating_kernel_repeat_bit_for_bit():
    # Float addition does not associate: any other order would show in some of these sums.
    source = """
    const uint i = thread_position_in_grid.x, row = thread_position_in_grid.y;
    const float addend = x[i] * float(row + 1);
    atomic_add_row<1>(sums, row * 8 + i % 8, &addend);
    """
    accumulate = CpuKernel("toy_sums", ["x"], ["sums"], source, HEADER, atomic_outputs=True)
    x = mx.random.normal((20_001,), key=mx.random.key(2)) * 1e3

    def sums():
        (got,) = accumulate(
            inputs=[x],
            output_shapes=[(13, 8)],
            output_dtypes=[mx.float32],
            grid=(x.size, 13, 1),
            init_value=0,
        )
        return np.array(got)

    first = sums()
    values = np.array(x, np.float64)
    want = [[(row + 1) * values[k::8].sum() for k in range(8)] for row in range(13)]
    np.testing.assert_allclose(first, want, rtol=0, atol=1e-6 * np.abs(values).sum())
    for _ in range(20):
        assert sums().tobytes() == first.tobytes()


def test_several_outputs_of_several_types_come_back_in_order():
    source = """
    const uint i = thread_position_in_grid.x;
    whole[i] = int(x[i]);
    part[i] = x[i] - float(int(x[i]));
    small[i] = (unsigned char)(i);
    """
    split = CpuKernel("toy_split", ["x"], ["whole", "part", "small"], source, HEADER)
    x = mx.array([0.25, 1.5, 7.75])
    whole, part, small = split(
        inputs=[x],
        output_shapes=[(3,)] * 3,
        output_dtypes=[mx.int32, mx.float32, mx.uint8],
        grid=(3, 1, 1),
    )
    assert whole.tolist() == [0, 1, 7]
    assert part.tolist() == [0.25, 0.5, 0.75]
    assert small.tolist() == [0, 1, 2]


BASE = {
    "output_shapes": [(6,), (6,)],
    "output_dtypes": [mx.float32, mx.float32],
    "grid": (6, 1, 1),
    "template": [("N", 1)],
    "init_value": 0,
}


@pytest.mark.parametrize(
    "change",
    [
        # MLX compares the shape and type of each output, and takes its siblings for the same.
        {"output_shapes": [(6,), (2, 3)]},
        {"output_shapes": [(2, 3), (6,)]},
        {"output_dtypes": [mx.float32, mx.int32]},
        {"grid": (3, 1, 1)},
        {"template": [("N", 2)]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_compiled_launches_that_differ_in_one_thing_are_not_merged(change):
    scale = CpuKernel(
        "toy_scale",
        ["x"],
        ["y", "z"],
        "const uint i = thread_position_in_grid.x; y[i] = N * x[i]; z[i] = N * x[i] + 1;",
        HEADER,
    )
    calls = (BASE, BASE | change)
    compiled = mx.compile(
        # `abs`: MLX never merges the outputs of a compiled function.
        lambda x: [list(map(mx.abs, scale(inputs=[x], **call))) for call in calls]
    )
    for got, call in zip(compiled(mx.arange(1.0, 7.0)), calls, strict=True):
        assert [each.shape for each in got] == call["output_shapes"]
        assert [each.dtype for each in got] == call["output_dtypes"]
        done = slice(0, call["grid"][0])
        want = dict(call["template"])["N"] * np.arange(1, 7)
        for each, add in zip(got, (0, 1), strict=True):
            np.testing.assert_array_equal(np.array(each).ravel()[done], (want + add)[done])
            assert not np.array(each).ravel()[done.stop :].any()
