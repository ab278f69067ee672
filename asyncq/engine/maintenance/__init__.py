"""The rounds that any worker makes: rescue, pruning, and a watch on transactions that block vacuum."""
