"""The fields of a scenario as Markdown: `python -m service.web.inputs_document`.

It is the page `/inputs` in English; a test compares the file with it.
"""

import sys
from typing import Final

from service.web.input_lines import InputLine, input_lines
from service.web.language import Texts, texts

_INTRODUCTION: Final = """\
# Inputs: where each field is found

<!-- Written by `python -m service.web.inputs_document`; its words: service/web/input_words -->

{lead} {measure} The same is on the page `/inputs` of the service, in English and French.
"""


def markdown() -> str:
    """All of it."""
    words = texts("en", "inputs")
    parts = [_INTRODUCTION.format(lead=words["lead"], measure=words["measure"])]
    for section in input_lines("en"):
        parts.append(f"## {section.title}\n")
        parts += [_field(line, words) for line in section.lines]
    return "\n".join(parts)


def _field(line: InputLine, words: Texts) -> str:
    facts = [
        f"{words['unit']}: {line.unit}",
        f"{words['default']}: {line.default}",
        f"{words['bounds']}: {line.bounds}",
    ]
    if line.only_with:
        facts.append(f"{words['only_with']}: {line.only_with}")
    return (
        f"### `{line.path}`\n\n{line.what}\n\n- {' · '.join(facts)}\n"
        f"- **{words['where']}.** {line.where}\n- **{words['unknown']}.** {line.unknown}\n"
    )


if __name__ == "__main__":
    sys.stdout.write(markdown())
