"""Kills, races, failing calls and full disks: what the durable log promises while the world misbehaves."""
