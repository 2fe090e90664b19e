"""Entry point of `python -m nerfmac`, which runs the command `nerfmac`."""

from nerfmac.app.cli import main

if __name__ == "__main__":
    main()
