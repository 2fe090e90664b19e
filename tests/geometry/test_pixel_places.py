"""Views of any sizes: their pixels follow each other, and all are as likely."""

import numpy as np
import pytest

from nerfmac.common.constants import FRACTION_UNITS as WHOLE
from nerfmac.geometry.cameras import pixel_places

SIZES = {
    "one": [(7, 5)],
    "equal": [(7, 5)] * 4,
    "two": [(7, 5), (5, 7), (14, 10)],
    "many": [(width, 3 + width % 5) for width in (1, 90, 3, 17, 40, 2, 2, 300, 8)],
}


@pytest.mark.parametrize("name", SIZES)
def test_the_shares_of_all_views_are_as_their_pixels(name):
    sizes = np.array(SIZES[name])
    counts = sizes.prod(axis=1)
    first, height, width, kept, other = pixel_places(SIZES[name]).T
    assert np.diff(first, append=counts.sum()).tolist() == counts.tolist()
    assert np.stack([width, height], axis=1).tolist() == sizes.tolist()
    assert ((kept >= 0) & (kept <= WHOLE)).all()
    got = kept.astype(np.float64)
    np.add.at(got, other, WHOLE - kept)
    np.testing.assert_allclose(got / WHOLE / len(sizes), counts / counts.sum(), atol=1e-6)


def test_two_thousand_million_pixels_are_numbered():
    assert pixel_places([(2**15, 2**15)] * 2)[1, 0] == 2**30
