"""Usage, money and prices: what a response used and what that costs."""
