"""When a process that tests wait for hangs."""

SECONDS = 600
"""Most time to wait: a hundred times what is usual, for machines that are loaded or slow."""
