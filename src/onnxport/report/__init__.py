"""The report of an export: as markdown, and as one page of HTML."""

from onnxport.report.account import Account
from onnxport.report.flame import Sampler, flame_page
from onnxport.report.html import html_page
from onnxport.report.markdown import markdown
from onnxport.report.profile import chrome_trace, profile_text

__all__ = ["Account", "Sampler", "chrome_trace", "flame_page", "html_page", "markdown", "profile_text"]
