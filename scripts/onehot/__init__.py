"""The study's library: problems, backends, implementations, clocks, records, statistics, tables and figures."""
