from hypothesis import settings

# The machine is shared: an example that waits for the processor is no failure.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
