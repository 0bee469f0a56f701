"""Answers side by side: what differs in what was asked, and where the time differs."""
