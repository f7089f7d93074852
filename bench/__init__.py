"""Budgets measured on this machine, as ratios against named peers where one can run beside."""
