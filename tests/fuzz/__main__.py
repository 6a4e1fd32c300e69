"""Run random programs and print what is wrong, in a few lines each."""

from __future__ import annotations

import argparse
import collections
import logging
import sys
import warnings

import onnxport
from fuzz.examination import Examined, examine
from fuzz.isolation import isolated
from fuzz.programs import SIZES, generate, inputs
from fuzz.shrink import shrunk


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first program; each further one has the next")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--statements", type=int, nargs=2, default=(20, 60), metavar=("FEWEST", "MOST"))
    parser.add_argument("--no-shrink", action="store_true", help="name the fault only")
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    # What is imported and learnt on the way is there for the forks; nothing runs in onnxruntime, whose threads don't.
    onnxport.export(generate(0, 30, 30).first(5).module(), inputs(SIZES[0]), verbose=False)
    counts: collections.Counter[str] = collections.Counter()
    for seed in range(options.seed, options.seed + options.programs):
        program = generate(seed, *options.statements)
        examined = examine(program, seed, isolated)
        counts["programs"] += 1
        counts["statements"] += len(program.statements)
        counts["faults"] += examined.fault is not None
        _tell(seed, examined, counts, shrink=not options.no_shrink)
        sys.stdout.flush()
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return 1 if counts["faults"] else 0


def _tell(seed: int, examined: Examined, counts: collections.Counter[str], shrink: bool) -> None:
    for each in examined.aside:
        counts[each.kind] += 1
        reason = " ".join(each.reason.split())
        print(f"seed {seed}: {each.kind}: `{each.statement}`: {reason[:300]}")
    fault = examined.fault
    if fault is not None:
        print(f"seed {seed}: {fault.kind}: {fault.detail[:600]}")
        if shrink:
            print(shrunk(examined.program, fault, examined.opset).text())


if __name__ == "__main__":
    sys.exit(main())
