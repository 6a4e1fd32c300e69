"""The report of an export: as markdown, and as one page of HTML."""

from onnxport.report.account import Account
from onnxport.report.html import html_page
from onnxport.report.markdown import markdown
from onnxport.report.profile import chrome_trace, profile_text

__all__ = ["Account", "chrome_trace", "html_page", "markdown", "profile_text"]
