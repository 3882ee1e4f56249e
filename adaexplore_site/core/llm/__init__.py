"""Language models over the OpenAI protocol.

The key never leaves this package: it is scrubbed from every text that comes back, errors and replies alike.
"""

from adaexplore_site.core.llm.client import ChatClient, Completion, Endpoint, Message, Retry, endpoint_from_settings
from adaexplore_site.core.llm.faults import LLMError, scrub

__all__ = ["ChatClient", "Completion", "Endpoint", "LLMError", "Message", "Retry", "endpoint_from_settings", "scrub"]
