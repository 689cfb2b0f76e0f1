"""``python -m apmax`` is the command ``apmax``."""

from apmax.cli import main

if __name__ == "__main__":
    main()
