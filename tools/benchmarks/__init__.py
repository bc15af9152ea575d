"""One file for each thing that `tools/benchmark.py` measures."""
