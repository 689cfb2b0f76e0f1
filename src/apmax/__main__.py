"""``python -m apmax`` is the command ``apmax``."""

from apmax.app.cli import main

if __name__ == "__main__":
    main()
