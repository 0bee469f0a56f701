"""Answers to fixed questions: what a change of the code moves is read off the change of a file."""
