"""What a requestor sends, and when."""
