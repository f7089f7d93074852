"""Commands about credentials in sessions."""
