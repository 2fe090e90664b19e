"""`python -m nerfmac` is `nerfmac`."""

from nerfmac.app.cli import main

if __name__ == "__main__":
    main()
