"""Run every benchmark; exit with 1 if a bar is missed."""

from __future__ import annotations

import sys

from benchmarks import metric_speed, objective_speed


def main() -> int:
    missed = 0
    for module in (metric_speed, objective_speed):
        for line in module.lines():
            print(line, flush=True)
            missed += not line.kept
    print(f"{missed} bar(s) missed" if missed else "every bar is kept")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
