"""Benchmarks on real servers with fsync on; only ratios of one run count.

`suite` measures asyncq beside its peers, `profile` where the time of a job goes, `run` what keys, policies and
recurring jobs cost, `takeover` and `bad_days` how soon things are well again.
"""
