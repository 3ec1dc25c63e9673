"""Requests per second: one scenario at `POST /v1/evaluations` against a bare Litestar echo."""

import json
import tempfile
from pathlib import Path

from tests.benchmarks.http_load import CONNECTIONS, requests_per_s
from tests.benchmarks.processes import bare_echo, trainard

WARM_UP_S = 1.0
MEASURED_S = 4.0
ROUNDS = 3
PATH = "/v1/evaluations"
EXAMPLE = Path(__file__).parents[2] / "service" / "cli" / "example" / "scenario.json"


def rows() -> list[dict[str, str]]:
    """Best of the rounds of each, taken in turn, so that both see the same machine."""
    body = json.dumps({"scenario": json.loads(EXAMPLE.read_text())}).encode()
    best = {"service": 0.0, "echo": 0.0}
    with (
        tempfile.TemporaryDirectory() as folder,
        trainard(f"sqlite:///{folder}/bench.db") as service,
        bare_echo() as echo,
    ):
        for for_s in [WARM_UP_S] + [MEASURED_S] * ROUNDS:
            for name, server in (("service", service), ("echo", echo)):
                rate = requests_per_s(server.host, server.port, PATH, body, for_s=for_s)
                best[name] = max(best[name], rate)
    return [
        {
            "measure": f"one scenario with the rank table, {CONNECTIONS} connections",
            "Trainard": f"{best['service']:,.0f} requests/s",
            "bare echo": f"{best['echo']:,.0f} requests/s",
            "ratio": f"{best['service'] / best['echo']:.2f}",
            "target": "reported",
        }
    ]


if __name__ == "__main__":
    for row in rows():
        print(row)
