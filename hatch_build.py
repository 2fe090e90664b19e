"""The package's page: the project's addresses, and README with links that lead there.

Where the project lives is written down nowhere: a release says so, by the variables that GitHub
sets on the machine that builds it. Built elsewhere, a package has no addresses, and its page is
README as it stands.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(
    r"""(?:(?<=\]\()|(?<=src=")|(?<=srcset=")|(?<=href="))(?![a-z]+:|\#)[^)\s"]+"""
)
"""Where a link or an image within the repository leads to, in Markdown or HTML."""
IMAGES = (".gif", ".jpg", ".png", ".svg", ".webp")


class CustomMetadataHook(MetadataHookInterface):
    """Fills in `urls` and `readme`, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the two fields to `metadata`."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        if repository := os.environ.get("GITHUB_REPOSITORY"):
            home = f"{os.environ['GITHUB_SERVER_URL']}/{repository}"
            metadata["urls"] = {
                "Homepage": home,
                "Changelog": f"{home}/blob/HEAD/CHANGELOG.md",
                "Issues": f"{home}/issues",
            }
            text = with_addresses(text, home, os.environ["GITHUB_REF_NAME"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_addresses(text: str, home: str, ref: str) -> str:
    """Markdown whose links within the repository lead to its files at `home`, as of `ref`."""

    def address(found: re.Match[str]) -> str:
        kind = "raw" if found[0].lower().endswith(IMAGES) else "blob"
        return f"{home}/{kind}/{ref}/{found[0]}"

    return RELATIVE.sub(address, text)
