"""Answers rechecked, repaired and judged, whoever found them."""

from pwcf.verify.evidence import AnswerEvidence, evidence_passes, gather_evidence
from pwcf.verify.recheck import Checked, measured, recheck
from pwcf.verify.repair import HALVINGS, Rounding, to_boundary, to_grid, within

__all__ = [
    "HALVINGS",
    "AnswerEvidence",
    "Checked",
    "Rounding",
    "evidence_passes",
    "gather_evidence",
    "measured",
    "recheck",
    "to_boundary",
    "to_grid",
    "within",
]
