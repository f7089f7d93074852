"""The commands of this house."""
