import json

from openapi_spec_validator import validate

from tests.cli.conftest import Program


def test_printed_document_is_valid_openapi(trainard: Program) -> None:
    done = trainard("openapi")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    validate(document)
    assert "/v1/scenario-batches" in document["paths"]


def test_check_finds_a_difference(trainard: Program) -> None:
    missing = trainard("openapi", "--check")
    assert missing.returncode == 1
    assert "out of date" in missing.stderr
    trainard("openapi", "--write", "openapi/openapi.json")
    assert trainard("openapi", "--check").returncode == 0
