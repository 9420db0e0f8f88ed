"""What models can be given, and how much: from their providers' documentation, not from guesses.

A model that no row knows is given text only. `[takes."PROVIDER:NAME"]` in retinue.toml says what is so here. Where a
provider was read, its address stands beside its rows; limits were compared with the catalogue of models.dev.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from retinue.models.config import TakesConfig
from retinue.ports.models import Takes

NOTHING: frozenset[str] = frozenset()
IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
PDF = frozenset({"application/pdf"})
SEES = IMAGES | PDF
WAV_MP3 = frozenset({"audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3"})


@dataclass(frozen=True, slots=True)
class Row:
    """What the models whose names begin like this take. First match counts."""

    name: str
    media: frozenset[str] = NOTHING
    context: int | None = None
    longest: int | None = None
    """The most tokens that one answer can have."""
    tools: bool = True
    output: bool = True

    @property
    def takes(self) -> Takes:
        return Takes(media=self.media, tools=self.tools, output=self.output, context_tokens=self.context)


UNKNOWN = Row("")

# https://developers.openai.com/api/docs/models, for images …/guides/images-vision, for documents …/guides/pdf-files
# ("models with vision capabilities can also accept PDF files"), for sound …/guides/audio, for schemas
# …/guides/structured-outputs (gpt-4o-2024-08-06 and later).
OPENAI = (
    Row(r"gpt-(4o|5|6)?-?(mini-)?audio|gpt-4o(-mini)?-audio", WAV_MP3, 128_000, 16_384, output=False),
    Row(r"gpt-(image|realtime|live|transcribe)|gpt-4o(-mini)?-(realtime|transcribe|tts)", tools=False, output=False),
    Row(r"gpt-(5|6)[\d.]*-chat|gpt-5\.\d-chat|gpt-chat|chatgpt", SEES, 128_000, 16_384),
    Row(r"gpt-5\.3-codex-spark|gpt-5\.3$", SEES, 128_000, 32_000),
    Row(r"gpt-5\.4-(mini|nano)", SEES, 400_000, 128_000),
    Row(r"gpt-5\.[4-9]|gpt-[6-9]", SEES, 1_050_000, 128_000),
    Row(r"gpt-5-pro", SEES, 400_000, 272_000),
    Row(r"gpt-5", SEES, 400_000, 128_000),
    Row(r"gpt-4\.1", SEES, 1_047_576, 32_768),
    Row(r"gpt-4o-2024-05-13", SEES, 128_000, 4_096, output=False),
    Row(r"gpt-4o", SEES, 128_000, 16_384),
    Row(r"gpt-4-turbo", IMAGES, 128_000, 4_096, output=False),
    Row(r"gpt-4(-|$)", NOTHING, 8_192, 8_192, output=False),
    Row(r"gpt-3\.5", NOTHING, 16_385, 4_096, output=False),
    Row(r"gpt-oss", NOTHING, 131_072, 131_072),
    Row(r"o3-mini", NOTHING, 200_000, 100_000),
    Row(r"o1-(mini|preview)", NOTHING, 128_000, 32_768, tools=False, output=False),
    Row(r"o[134]", SEES, 200_000, 100_000),
)

# https://platform.claude.com/docs/en/about-claude/models/overview, …/build-with-claude/vision and …/pdf-support
# ("all active models").
ANTHROPIC = (
    Row(r"claude-3-(opus|sonnet|haiku)", SEES, 200_000, 4_096),
    Row(r"claude-3-5", SEES, 200_000, 8_192),
    Row(r"claude-3-7", SEES, 200_000, 64_000),
    Row(r"claude-opus-4(-[01]|-2025|$)", SEES, 200_000, 32_000),
    Row(r"claude-(opus|sonnet|haiku)-4(-[05]|-2025|$)", SEES, 200_000, 64_000),
    Row(r"claude-sonnet-4-6", SEES, 1_000_000, 64_000),
    Row(r"claude-(opus-4-[6-9]|[a-z]+-[5-9])", SEES, 1_000_000, 128_000),
    Row(r"claude-", SEES, 200_000),
)

# https://ai.google.dev/gemini-api/docs/models, …/image-understanding, …/audio, …/video-understanding and
# …/document-processing list the types.
GEMINI = frozenset(
    {"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}
    | {"audio/wav", "audio/x-wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"}
    | {"video/mp4", "video/mpeg", "video/quicktime", "video/x-msvideo", "video/x-flv", "video/webm", "video/x-ms-wmv"}
    | {"video/3gpp", *PDF}
)
GOOGLE = (
    Row(r"gemini-.*-(tts|embedding)|gemini-embedding", NOTHING, 8_192, 16_384, tools=False, output=False),
    Row(r"gemini-2\.5-flash-image", GEMINI & IMAGES, 32_768, 32_768, tools=False, output=False),
    Row(r"gemini-.*-image", GEMINI & SEES, 65_536, 32_768, tools=False),
    Row(r"gemini-.*-?live", tools=False, output=False),
    Row(r"gemini-2\.0", GEMINI, 1_048_576, 8_192),
    Row(r"gemini-(2\.5|[3-9]|flash|pro-latest)", GEMINI, 1_048_576, 65_536),
    Row(r"gemma-4", GEMINI & IMAGES, 262_144, 32_768),
)

# https://docs.x.ai/docs/models and …/guides/image-understanding (JPEG and PNG).
XAI_IMAGES = frozenset({"image/png", "image/jpeg"})
XAI = (
    Row(r"grok-2-vision", XAI_IMAGES, 32_768),
    Row(r"grok-(2|3)", NOTHING, 131_072),
    Row(r"grok-code", NOTHING, 256_000),
    Row(r"grok-build", XAI_IMAGES, 256_000),
    Row(r"grok-4-(1-)?fast", XAI_IMAGES, 2_000_000, 30_000),
    Row(r"grok-4(-0709|-latest|$)", XAI_IMAGES, 256_000),
    Row(r"grok-4\.[5-9](?!\d)", XAI_IMAGES, 500_000, 30_000),
    Row(r"grok-4\.", XAI_IMAGES, 1_000_000, 30_000),
)

# https://api-docs.deepseek.com/quick_start/pricing and …/guides/json_mode: text only, JSON without a schema.
DEEPSEEK = (
    Row(r"deepseek-v3", NOTHING, 128_000, output=False),
    Row(r"deepseek-", NOTHING, 1_000_000, 384_000, output=False),
)

# https://docs.mistral.ai/models and …/capabilities/vision.
MISTRAL = (
    Row(r"mistral-(large-(2512|latest|[4-9])|medium-(2508|2604|3|latest)|small-(2603|latest))", IMAGES, 256_000),
    Row(r"mistral-(medium-2505|small-2506)|pixtral", IMAGES, 128_000),
    Row(r"(codestral|devstral)", NOTHING, 256_000),
    Row(r"mistral-(embed|ocr)", tools=False, output=False),
    Row(r"(mistral|ministral|magistral|open-mistral-nemo)", NOTHING, 128_000),
)

# https://console.groq.com/docs/models, …/docs/vision, and …/docs/structured-outputs: only few hold to a schema.
GROQ = (
    Row(r"meta-llama/llama-4", IMAGES, 131_072, 8_192),
    Row(r"openai/gpt-oss", NOTHING, 131_072, 65_536),
    Row(r"moonshotai/kimi-k2", NOTHING, 131_072, 16_384),
    Row(r"groq/compound", NOTHING, 131_072, 8_192, tools=False, output=False),
    Row(r"llama-3\.3", NOTHING, 131_072, 32_768, output=False),
    Row(r"", NOTHING, 131_072, output=False),
)

# https://docs.cohere.com/docs/models
COHERE = (
    Row(r"command-a-vision", IMAGES, 128_000, 8_000, tools=False),
    Row(r"command-a-reasoning", NOTHING, 256_000, 32_000),
    Row(r"command-a", NOTHING, 256_000, 8_000),
    Row(r"command-r", NOTHING, 128_000, 4_000),
)

# https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-supported-models-features.html
AWS_VIDEO = frozenset({"video/mp4", "video/quicktime", "video/webm", "video/x-flv", "video/mpeg", "video/x-ms-wmv"})
BEDROCK = (
    Row(r"amazon\.nova-micro", NOTHING, 128_000, output=False),
    Row(r"amazon\.nova-(premier|2)", SEES | AWS_VIDEO, 1_000_000, output=False),
    Row(r"amazon\.nova", SEES | AWS_VIDEO, 300_000, output=False),
    Row(r"amazon\.titan", NOTHING, tools=False, output=False),
)

TABLE: Mapping[str, tuple[Row, ...]] = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "google": GOOGLE,
    "xai": XAI,
    "deepseek": DEEPSEEK,
    "mistral": MISTRAL,
    "groq": GROQ,
    "cohere": COHERE,
    "bedrock": BEDROCK,
}
SAME = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "openai-chatgpt": "openai",
    "openai-codex": "openai",
    "azure": "openai",
    "azure-responses": "openai",
    "google-cloud": "google",
    "bedrock-mantle": "bedrock",
}
"""Other ways to the same models."""
GATEWAYS = frozenset({"openrouter", "vercel", "litellm", "gateway"})
"""They call a model by its maker and its name, and pass on what it takes."""
MAKERS = {"x-ai": "xai", "mistralai": "mistral", "google-vertex": "google"}
MADE_FOR_BEDROCK = ("anthropic", "openai")
_region = re.compile(r"(us|eu|apac|jp|au|ca|us-gov|global|regional)\.")
_maker = re.compile(r"([a-z0-9-]+)[/:.](.+)")


def row_of(provider: str, model: str) -> Row:
    """What is known of a model."""
    provider = SAME.get(provider, provider)
    if provider == "bedrock":
        model = _region.sub("", model, count=1)
    for row in TABLE.get(provider, ()):
        if re.match(row.name, model):
            return row
    made = _maker.fullmatch(model)
    if made and (provider in GATEWAYS or (provider == "bedrock" and made[1] in MADE_FOR_BEDROCK)):
        return row_of(MAKERS.get(made[1], made[1]), made[2])
    return UNKNOWN


def corrected(row: Row, config: TakesConfig | None) -> Row:
    """The row with what the settings say."""
    if config is None:
        return row
    return replace(
        row,
        media=row.media if config.media is None else frozenset(config.media),
        tools=row.tools if config.tools is None else config.tools,
        output=row.output if config.output is None else config.output,
        context=config.context_tokens or row.context,
        longest=config.output_tokens or row.longest,
    )


def providers_of(model: str) -> list[str]:
    """The providers that have a model of that name, as far as the table knows: for those who forgot to say which."""
    return [name for name, rows in TABLE.items() if any(row.name and re.match(row.name, model) for row in rows)]
