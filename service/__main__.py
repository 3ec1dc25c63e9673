"""`python -m service` is the same program as `trainard`."""

from service.cli import main

main()
