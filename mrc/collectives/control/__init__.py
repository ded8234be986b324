"""What ranks tell each other beside their data: that one has left, that its group has failed, and by silence, that it
is gone."""
