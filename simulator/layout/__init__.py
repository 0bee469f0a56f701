"""Physical cache layouts: what an engine stores, page by page, and how many requests that holds."""
