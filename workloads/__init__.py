"""What is computed and asked for: operations, graph, models, logical cache state."""
