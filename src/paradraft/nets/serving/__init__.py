"""Networks behind the drafter's port: weights laid out for a machine, contexts cached, a round at a time."""
