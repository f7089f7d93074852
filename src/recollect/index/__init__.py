"""The index: a database about the logs without their text. It can be deleted and rebuilt at any time."""
