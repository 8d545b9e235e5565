"""The ways in: MCP over stdio and over HTTP, in front of one `services.api.Service`."""
