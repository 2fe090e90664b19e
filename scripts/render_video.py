"""Render a video of a trained run. Equivalent to `nerfmac render`.

python scripts/render_video.py runs/fox --frames 120 --out fox.mp4
"""

import sys

from nerfmac.app.cli import main

if __name__ == "__main__":
    main(["render", *sys.argv[1:]])
