"""Download of public NeRF scenes. No other package of nerfmac accesses the network.

Examples:
    folder = nerfmac.app.datasets.fetch("lego")
    run = nerfmac.train(folder)
"""

from nerfmac.app.datasets.catalog import COLLECTIONS as COLLECTIONS, find as find
from nerfmac.app.datasets.fetching import fetch as fetch
