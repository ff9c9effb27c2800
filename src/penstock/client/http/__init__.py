"""The library over HTTP, through the topic-queue endpoints of a gateway, with the standard library alone."""
