"""Preview of a scene page in chats: the tags that a crawler reads, and the still image.

A crawler requires the absolute address of the image, which is unknown when the page is written.
Therefore, the server that sends the page inserts the tags.
"""

import base64
from html import escape


def with_preview(page: str, image: str) -> str:
    """Return a scene page with the tags of a preview.

    Args:
        page: HTML source code that `write_scene_page` has written.
        image: Absolute address of the image of the preview.

    Returns:
        HTML source code.
    """
    tags = f'<meta property="og:image" content="{escape(image)}">\n'
    tags += '<meta name="twitter:card" content="summary_large_image">\n'
    return page.replace("<title>", f"{tags}<title>", 1)


def still_image(page: str) -> bytes:
    """Return the still image in landscape format of the HTML source code of a scene page, as the
    content of a JPEG file."""
    _, _, after = page.partition('id="still"')
    return base64.b64decode(after.partition("base64,")[2].partition('"')[0])
