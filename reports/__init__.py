"""So what: tables, figures, pages and timelines made from result records."""
