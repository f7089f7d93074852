"""Commands that find and repair what is wrong."""
