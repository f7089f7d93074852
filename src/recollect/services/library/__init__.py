"""What only programs ask for: walks over a whole home, tables, one-call jobs, plugins of other packages."""
