"""`python -m nerfmac` is `nerfmac`."""

from nerfmac.cli import main

if __name__ == "__main__":
    main()
