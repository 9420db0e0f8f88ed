"""How this program is let in by an authorization server, without anybody at a browser."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncGenerator
from urllib.parse import quote

import httpx2
from mcp.client.auth.exceptions import OAuthFlowError, OAuthTokenError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    create_oauth_metadata_request,
    handle_auth_metadata_response,
    validate_metadata_issuer,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.shared.auth_utils import resource_url_from_server_url

from retinue.core.mcp import McpServer, OAuth
from retinue.tools.mcp.common import Common
from retinue.tools.mcp.masks import Masks
from retinue.tools.mcp.reasons import short

EARLY = 10
"""Seconds before its end in which a token is no longer used."""
Flow = AsyncGenerator[httpx2.Request, httpx2.Response]


def let_in(server: McpServer, common: Common) -> httpx2.Auth | None:
    """What the requests to a server are sent through."""
    oauth, url = server.oauth, server.url or ""
    if oauth is None:
        return None
    way: httpx2.Auth = common.keyring.kept((url, oauth), lambda: _way(oauth, url, common.masks))
    return way


def _way(oauth: OAuth, url: str, masks: Masks) -> httpx2.Auth:
    if credentials := _credentials(oauth):
        masks.learn(credentials)
    if oauth.refresh_token is not None:
        return RefreshToken(oauth, url, masks)
    assert oauth.client_secret is not None
    return ClientCredentials(
        url, Tokens(masks), oauth.client_id, oauth.client_secret, scope=oauth.scope, issuer=oauth.issuer
    )


def _credentials(oauth: OAuth) -> str:
    """Name and secret of the client, as a header says them."""
    if oauth.client_secret is None:
        return ""
    both = f"{quote(oauth.client_id, safe='')}:{quote(oauth.client_secret, safe='')}"
    return base64.b64encode(both.encode()).decode()


class Tokens:
    """Tokens, in memory. They are secrets too."""

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
        """The client is declared, and not registered."""


class ClientCredentials(ClientCredentialsOAuthProvider):
    """Asks for the scope that is declared; the SDK would ask for all that the server advertises."""

    async def _perform_authorization(self) -> httpx2.Request:
        self.context.client_metadata.scope = self._fixed_client_info.scope or self.context.client_metadata.scope
        return await super()._perform_authorization()


class RefreshToken(httpx2.Auth):
    """Exchanges a refresh token for tokens, as often as it must. It is sent to the declared issuer alone."""

    requires_response_body = True

    def __init__(self, oauth: OAuth, url: str, masks: Masks) -> None:
        self._oauth, self._resource, self._tokens = oauth, resource_url_from_server_url(url), Tokens(masks)
        self._lock = asyncio.Lock()
        self._endpoint = self._access = ""
        self._refresh = oauth.refresh_token or ""
        self._until = 0.0

    async def async_auth_flow(self, request: httpx2.Request) -> Flow:
        for last in (False, True):
            async with self._lock:
                if time.monotonic() >= self._until:
                    if not self._endpoint:
                        for url in build_oauth_authorization_server_metadata_discovery_urls(self._oauth.issuer, ""):
                            await self._discovered((yield create_oauth_metadata_request(url)))
                    await self._exchanged((yield self._exchange()))
            used = request.headers["Authorization"] = f"Bearer {self._access}"
            response = yield request
            if response.status_code != 401 or last:
                return
            if used == f"Bearer {self._access}":  # and nobody else has got another one meanwhile
                self._until = 0.0

    async def _discovered(self, response: httpx2.Response) -> None:
        _, found = await handle_auth_metadata_response(response)
        if found is not None and not self._endpoint:
            validate_metadata_issuer(found, self._oauth.issuer)
            self._endpoint = str(found.token_endpoint)

    def _exchange(self) -> httpx2.Request:
        if not self._endpoint:
            raise OAuthFlowError(f"the issuer {self._oauth.issuer} does not say where it gives tokens")
        said = {
            "grant_type": "refresh_token",
            "refresh_token": self._refresh,
            "client_id": self._oauth.client_id,
            "resource": self._resource,
        }
        scope = {"scope": self._oauth.scope} if self._oauth.scope else {}
        credentials = _credentials(self._oauth)
        headers = {"Authorization": f"Basic {credentials}"} if credentials else {}
        return httpx2.Request("POST", self._endpoint, data={**said, **scope}, headers=headers)

    async def _exchanged(self, response: httpx2.Response) -> None:
        body = await response.aread()
        if response.status_code != 200:
            raise OAuthTokenError(f"it gave no token ({response.status_code}): {short(body.decode(errors='replace'))}")
        tokens = OAuthToken.model_validate_json(body)
        await self._tokens.set_tokens(tokens)
        self._access = tokens.access_token
        self._refresh = tokens.refresh_token or self._refresh
        self._until = time.monotonic() + (tokens.expires_in or 3_600) - EARLY
