"""Real clients of other agents: Codex, OpenCode, Gemini and Qwen."""
