"""The disposable database: rows about logs, never their text. Delete it, rebuild it, get the same rows."""
