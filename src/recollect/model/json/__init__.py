"""JSON as text: where a value stands, changing one value, what parsers refuse."""
