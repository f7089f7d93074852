"""Conversations of agent frameworks, stored in a store of ours."""
