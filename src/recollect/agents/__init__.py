"""Other agents: where their homes are, and what their records mean.

A home is read through its *mirror*, an append-only copy in lines of our own, so that all other rooms know one kind of home. Nothing is
ever written into an agent's home. ``mirror`` is the common part: it finds what changed, keeps it safe from being stopped, and gives
each agent's module (``codex``, ``gemini``, ``opencode``, ``qwen``) what is new; that translates records into ``lines``. ``homes`` is what
other rooms ask. Open ``docs/design/agents.md`` first.
"""
