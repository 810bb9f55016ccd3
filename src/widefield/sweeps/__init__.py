"""Many runs: cells that are named by what they compute, run here or on a Dask cluster, and gathered with labels."""
