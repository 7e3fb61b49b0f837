"""The study's library.

Problems, backends, implementations, clocks, records, statistics, tables and figures.
"""
