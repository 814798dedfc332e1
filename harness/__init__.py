"""Real and fake servers and ready-made data that tests, benchmarks and the demo share; not part of the product."""
