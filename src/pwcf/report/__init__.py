"""Tables and plots of a benchmark."""

from pwcf.report.bench import write_report
from pwcf.report.groups import OURS, Group, groups_of

__all__ = ["OURS", "Group", "groups_of", "write_report"]
