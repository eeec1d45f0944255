"""Answers rechecked, repaired and judged, whoever found them."""

from pwcf.verify.evidence import AnswerEvidence, evidence_passes, gather_evidence
from pwcf.verify.recheck import Checked, recheck
from pwcf.verify.repair import HALVINGS, to_boundary, to_grid, within

__all__ = [
    "HALVINGS",
    "AnswerEvidence",
    "Checked",
    "evidence_passes",
    "gather_evidence",
    "recheck",
    "to_boundary",
    "to_grid",
    "within",
]
