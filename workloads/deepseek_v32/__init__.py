"""DeepSeek-V3.2: multi-head latent attention with sparse picks, for comparison with V4."""
