"""Benchmarks on real servers with fsync on; only ratios of one run count.

`suite` compares asyncq with its peers, `profile` breaks down the time of a job, `run` measures keys, policies and
recurring jobs, `takeover` and `bad_days` the recovery after failures.
`cpu` measures how handlers that compute delay others.
"""
