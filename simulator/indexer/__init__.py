"""The lightning indexer's number formats: what they cost, and what they do to its picks."""
