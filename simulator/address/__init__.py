"""Which slots of which pools every packed row of a batch writes and reads, and what led there."""
