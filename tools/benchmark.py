"""Measures the speed of one of the project's parts on this machine.

    python tools/benchmark.py convert --pictures 1000 --workers 2

Prints the figures, one a line, or with --json as an object.
"""

import argparse
import inspect
import json
from collections.abc import Callable

from tools.benchmarks.convert import benchmark_convert
from tools.benchmarks.evaluate import benchmark_evaluate

# Each is called with its own arguments as flags, all of them whole numbers.
BENCHMARKS: dict[str, Callable[..., dict[str, float]]] = {"convert": benchmark_convert, "evaluate": benchmark_evaluate}


def main() -> None:
    """Runs the benchmark named on the command line."""
    arguments = vars(_parser().parse_args())
    measure, as_json = BENCHMARKS[arguments.pop("benchmark")], arguments.pop("json")
    figures = arguments | measure(**arguments)
    print(json.dumps(figures) if as_json else "\n".join(f"{name}: {value:.4g}" for name, value in figures.items()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="benchmark", required=True)
    for name, measure in BENCHMARKS.items():
        command = commands.add_parser(name, description=inspect.getdoc(measure))
        command.add_argument("--json", action="store_true", help="print a JSON object")
        for parameter in inspect.signature(measure).parameters.values():
            command.add_argument(f"--{parameter.name}", type=int, default=parameter.default)
    return parser


if __name__ == "__main__":
    main()
