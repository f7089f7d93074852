"""The sync client: pushing, pulling, and what becomes of it when everything goes wrong."""
