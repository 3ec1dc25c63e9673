"""`python -m service` is the same program as `trainard`."""

from service.cli import main

# Compute processes are spawned: each imports this module again, and must not start the program.
if __name__ == "__main__":
    main()
