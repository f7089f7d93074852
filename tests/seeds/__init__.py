"""What the documents ask that recollect was created from, one module a document."""
