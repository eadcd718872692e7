"""The figures of runs: tables, plots and comparisons."""
