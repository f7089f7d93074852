"""The local page: JSON over the services, for one person's browser. See docs/design/page.md."""
