"""Entry point of `python -m nerfmac`, equivalent to the command `nerfmac`."""

from nerfmac.app.cli import main

if __name__ == "__main__":
    main()
