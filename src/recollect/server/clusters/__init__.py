"""Organisations on several PostgreSQL clusters: where each is, and moving one."""
