"""Documents about money: reports, the spending of one answer, budgets, statistics."""
