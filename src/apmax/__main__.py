"""Run the command line with ``python -m apmax``."""

from apmax.app.cli import main

if __name__ == "__main__":
    main()
