"""Versions of the files a session touched, as its log tells them."""
