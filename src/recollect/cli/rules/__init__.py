"""Commands about permissions, settings and running tools."""
