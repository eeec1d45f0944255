"""Recheck, repair and evidence for the answers of any attack."""

from pwcf.verify.evidence import AnswerEvidence, LinearModelEvidence, evidence_passes, gather_evidence
from pwcf.verify.recheck import Checked, recheck
from pwcf.verify.repair import HALVINGS, OUTWARDS_PASSES, grid_passes, onto_grid, outwards, to_boundary, to_grid

__all__ = [
    "HALVINGS",
    "OUTWARDS_PASSES",
    "AnswerEvidence",
    "Checked",
    "LinearModelEvidence",
    "evidence_passes",
    "gather_evidence",
    "grid_passes",
    "onto_grid",
    "outwards",
    "recheck",
    "to_boundary",
    "to_grid",
]
