"""Run random programs and print what is wrong, in a few lines each."""

from __future__ import annotations

import argparse
import collections
import logging
import sys

from fuzz.outcomes import outcome
from fuzz.programs import generate
from fuzz.shrink import shrunk


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first program; each further one has the next")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--statements", type=int, nargs=2, default=(20, 60), metavar=("FEWEST", "MOST"))
    parser.add_argument("--no-shrink", action="store_true", help="count only")
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    counts: collections.Counter[str] = collections.Counter()
    for seed in range(options.seed, options.seed + options.programs):
        program = generate(seed, *options.statements)
        found = outcome(program)
        counts[found.kind] += 1
        if found.is_fault or found.kind == "refused":
            print(f"seed {seed}: {found.kind}: {found.detail[:600]}")
        if found.is_fault and not options.no_shrink:
            print(shrunk(program, found).text())
        sys.stdout.flush()
    print(", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    return 1 if counts["wrong"] or counts["crash"] else 0


if __name__ == "__main__":
    sys.exit(main())
