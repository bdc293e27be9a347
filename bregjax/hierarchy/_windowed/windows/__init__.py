"""Which merges are greedy's: rounds, their schedule and its proof."""
