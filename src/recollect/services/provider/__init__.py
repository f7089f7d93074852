"""Conversations of agent frameworks, kept in a store of ours."""
