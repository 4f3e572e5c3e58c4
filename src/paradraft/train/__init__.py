"""Makes drafters: captures what a target says, fits networks and tables to it, and measures them."""
