"""The stores of OpenCode: JSON files up to 1.1, a database from 1.2 on. Both are read without touching them."""
