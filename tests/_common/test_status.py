"""The vocabulary of statuses: each has a sentence, and few of them mean that all is well."""

from __future__ import annotations

from pwcf import Status


def test_every_status_has_a_sentence() -> None:
    sentences = [status.sentence for status in Status]
    assert all(sentence.endswith(".") and len(sentence) > 40 for sentence in sentences)
    assert len(set(sentences)) == len(sentences)
    assert [status for status in Status if status.ok] == [
        Status.CONVERGED,
        Status.TARGET,
        Status.FOUND,
        Status.ALREADY_MISCLASSIFIED,
    ]
