"""The tables of the papers on real data: train the models, measure every method, write docs/results.md."""
