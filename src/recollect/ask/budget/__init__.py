"""Budgets: what is left of them, and warnings that are given once."""
