"""C4 entries in host memory behind a hot buffer on the device: capacity, hits, time, throughput."""
