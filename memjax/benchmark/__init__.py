"""Speed against other implementations: the same work in turn in one run on one machine, as ratios."""
