"""Planning: from traffic and targets to the cheapest deployment that meets them."""
