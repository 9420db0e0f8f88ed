"""How this program is let in by an authorization server."""

from __future__ import annotations

import base64
from urllib.parse import quote

import httpx2
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from retinue.core.mcp import McpServer
from retinue.tools.mcp.masks import Masks


def let_in(server: McpServer, masks: Masks) -> httpx2.Auth | None:
    if server.oauth is None:
        return None
    assert server.url is not None
    oauth = server.oauth
    both = f"{quote(oauth.client_id, safe='')}:{quote(oauth.client_secret, safe='')}"
    masks.learn(base64.b64encode(both.encode()).decode())  # as a header says it
    return _ClientCredentials(
        server.url, Tokens(masks), oauth.client_id, oauth.client_secret, scope=oauth.scope, issuer=oauth.issuer
    )


class Tokens:
    """Tokens for as long as the connection lives. They are secrets too."""

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens
        for token in (tokens.access_token, tokens.refresh_token):
            if token:
                self._masks.learn(token)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        pass


class _ClientCredentials(ClientCredentialsOAuthProvider):
    """Asks for the scope that is declared; the SDK would ask for all that the server advertises."""

    async def _perform_authorization(self) -> httpx2.Request:
        self.context.client_metadata.scope = self._fixed_client_info.scope or self.context.client_metadata.scope
        return await super()._perform_authorization()
