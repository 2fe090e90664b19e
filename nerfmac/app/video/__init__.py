"""Rendering of a run along a camera path. The output is a video or a folder of numbered files."""

from nerfmac.app.video.encoding import check_video as check_video, write_video as write_video
from nerfmac.app.video.rendering import (
    render_video as render_video,
    video_seconds as video_seconds,
    video_size as video_size,
)
