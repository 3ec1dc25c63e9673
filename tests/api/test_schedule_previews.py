from litestar import Litestar
from litestar.testing import TestClient

Client = TestClient[Litestar]
PREVIEWS = "/v1/schedule-previews"
NIGHTLY = {"cron": " 30  2 * * * ", "zone": "Europe/Paris"}


def test_a_schedule_that_is_being_written_shows_when_it_would_come(client: Client) -> None:
    answer = client.post(
        f"{PREVIEWS}?count=2&after=2026-10-24T12:00:00%2B02:00", json=NIGHTLY
    ).json()
    assert (answer["cron"], answer["zone"]) == ("30 2 * * *", "Europe/Paris")
    assert [(one["at"], one["local"], one["dst"]) for one in answer["items"]] == [
        ("2026-10-25T00:30:00Z", "2026-10-25T02:30:00+02:00", "overlap"),
        ("2026-10-26T01:30:00Z", "2026-10-26T02:30:00+01:00", None),
    ]
    assert len(client.post(PREVIEWS, json=NIGHTLY).json()["items"]) == 20
    assert client.get("/v1/schedules").json()["items"] == []


def test_the_faults_are_those_of_a_schedule(client: Client) -> None:
    wrong = {"cron": "61 2 * * *", "zone": "Europe/Nowhere"}
    answer = client.post(PREVIEWS, json=wrong)
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/invalid-schedule"
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/cron", "/zone"]
    assert client.post(PREVIEWS, json={"cron": "* * * * *"}).status_code == 422
