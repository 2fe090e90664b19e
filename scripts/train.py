"""Train a field on a folder of posed images. Equivalent to `nerfmac train`.

python scripts/train.py photos --seconds 60
"""

import sys

from nerfmac.app.cli import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
