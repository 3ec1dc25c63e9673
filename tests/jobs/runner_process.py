"""A process that runs the batches of a database until none is left; tests kill it."""

import sys

from service.db.engine import Database
from service.jobs import runner as runner_module
from service.jobs.runner import Runner


def main(url: str) -> None:
    # A killed process's lease must end within the test's patience.
    runner_module.LEASE_S = 2.0
    runner_module.RENEW_S = 0.5
    runner = Runner(Database(url), processes=1)
    print("ready", flush=True)
    while not runner.run_pending():
        pass
    runner.stop()


if __name__ == "__main__":
    main(sys.argv[1])
