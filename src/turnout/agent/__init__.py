"""The program on the node: claims runs, stages their files, runs them, ships what happened. Stdlib only, Python 3.9."""
