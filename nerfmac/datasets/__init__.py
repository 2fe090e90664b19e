"""Public scenes of the field, listed and fetched by name. Nothing else in nerfmac uses the network.

folder = nerfmac.datasets.fetch("lego")
run = nerfmac.train(folder)
"""

from nerfmac.datasets.catalogue import COLLECTIONS as COLLECTIONS
from nerfmac.datasets.catalogue import find as find
from nerfmac.datasets.fetching import fetch as fetch
