"""Permission decisions for this machine: rules, history, suggestions, the hook."""
