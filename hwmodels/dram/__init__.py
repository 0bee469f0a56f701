"""DRAM at burst level: timing presets, address mapping, controller, sources and results."""
