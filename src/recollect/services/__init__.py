"""Use cases, one a file. They carry values between rooms and print nothing."""
