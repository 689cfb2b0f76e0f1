"""Benchmark the objective and the metric; exit with 1 if a bar is missed."""

from __future__ import annotations

import sys
from itertools import chain

from benchmarks import metric_speed, objective_speed
from benchmarks.timing import report

if __name__ == "__main__":
    sys.exit(1 if report("objective", chain(metric_speed.lines(), objective_speed.lines())) else 0)
