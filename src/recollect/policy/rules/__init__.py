"""Rules as settings write them: parsed, indexed, warned about, and those to be saved."""
