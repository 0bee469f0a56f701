"""Laws between questions: how answers move when a question does, through the public API."""
