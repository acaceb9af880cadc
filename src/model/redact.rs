//! Keeping secrets out of text: the variables that are secret by name, and the shapes of known tokens.
//!
//! Invariant: pure text; what is redacted is replaced whole, so that no part of a secret of known shape stays.

use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

/// What stands in the place of a secret.
pub const MASK: &str = "[redacted]";

/// Values shorter than this are not searched for: they would be found in ordinary words.
const SHORTEST: usize = 8;

/// Variables that hold keys of model providers, tools and messaging services: kept out of snapshots and from agents'
/// commands. Names that end in `*` match any rest. The general variables of AWS are not among them: `aws` and `terraform`
/// need them.
const NAMES: &[&str] = &[
    // Model providers.
    "AI21_API_KEY",
    "AI_GATEWAY_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_TOKEN",
    "ARCEEAI_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_OPENAI_API_KEY",
    "CEREBRAS_API_KEY",
    "COHERE_API_KEY",
    "CO_API_KEY",
    "DASHSCOPE_API_KEY",
    "DEEPINFRA_API_KEY",
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "GEMINI_API_KEY",
    "GLM_API_KEY",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "HELICONE_API_KEY",
    "HF_TOKEN",
    "HUGGINGFACE_API_KEY",
    "HUGGINGFACE_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "KILOCODE_API_KEY",
    "KIMI_API_KEY",
    "LM_API_KEY",
    "MINIMAX_API_KEY",
    "MINIMAX_CN_API_KEY",
    "MISTRAL_API_KEY",
    "MOONSHOT_API_KEY",
    "NOUS_API_KEY",
    "NVIDIA_API_KEY",
    "OLLAMA_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_ORGANIZATION",
    "OPENAI_ORG_ID",
    "OPENROUTER_API_KEY",
    "PERPLEXITY_API_KEY",
    "REPLICATE_API_TOKEN",
    "STABILITY_API_KEY",
    "TOGETHER_API_KEY",
    "VOYAGE_API_KEY",
    "XAI_API_KEY",
    "XIAOMI_API_KEY",
    "ZAI_API_KEY",
    "Z_AI_API_KEY",
    // Tools.
    "AUXILIARY_*",
    "BRAVE_API_KEY",
    "BROWSERBASE_API_KEY",
    "BROWSER_USE_API_KEY",
    "DAYTONA_API_KEY",
    "ELEVENLABS_API_KEY",
    "EXA_API_KEY",
    "FAL_KEY",
    "FIRECRAWL_API_KEY",
    "GATEWAY_RELAY_*",
    "GH_TOKEN",
    "GITHUB_APP_PRIVATE_KEY",
    "GITHUB_APP_PRIVATE_KEY_PATH",
    "GITHUB_TOKEN",
    "GITHUB_PAT",
    "HONCHO_API_KEY",
    "LANGFUSE_SECRET_KEY",
    "LANGSMITH_API_KEY",
    "MEM0_API_KEY",
    "MODAL_TOKEN_ID",
    "MODAL_TOKEN_SECRET",
    "PARALLEL_API_KEY",
    "SERPAPI_API_KEY",
    "SUDO_PASSWORD",
    "TAVILY_API_KEY",
    "TINKER_API_KEY",
    "VERCEL_OIDC_TOKEN",
    "VERCEL_TOKEN",
    "VOICE_TOOLS_OPENAI_KEY",
    "WANDB_API_KEY",
    // Messaging.
    "DINGTALK_CLIENT_SECRET",
    "DISCORD_BOT_TOKEN",
    "DISCORD_TOKEN",
    "EMAIL_PASSWORD",
    "FEISHU_APP_SECRET",
    "HASS_TOKEN",
    "LINE_CHANNEL_ACCESS_TOKEN",
    "LINE_CHANNEL_SECRET",
    "MATRIX_ACCESS_TOKEN",
    "MATRIX_PASSWORD",
    "MATTERMOST_TOKEN",
    "SENDGRID_API_KEY",
    "SIGNAL_ACCOUNT",
    "SLACK_APP_TOKEN",
    "SLACK_BOT_TOKEN",
    "SLACK_SIGNING_SECRET",
    "SLACK_TOKEN",
    "TEAMS_CLIENT_SECRET",
    "TELEGRAM_BOT_TOKEN",
    "TWILIO_AUTH_TOKEN",
    "WECOM_SECRET",
    "WHATSAPP_ACCESS_TOKEN",
    "WHATSAPP_TOKEN",
];

/// Gives the names that are secret when the config says nothing else.
pub fn secret_names() -> Vec<String> {
    NAMES.iter().map(|name| (*name).to_owned()).collect()
}

/// Whether a variable's name is on a list; `*` at the end of an entry matches any rest.
pub fn is_listed<S: AsRef<str>>(name: &str, list: &[S]) -> bool {
    list.iter().any(|entry| match entry.as_ref().strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => entry.as_ref() == name,
    })
}

/// Whether a variable's name looks like that of a secret, for showing settings: `DB_PASSWORD`, `MY_TOKEN`.
pub fn looks_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let words = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "PRIVATE", "AUTH", "APIKEY", "DSN"];
    words.iter().any(|word| upper.contains(word)) || upper.ends_with("_KEY") || upper.ends_with("_PASS") || upper.ends_with("_PAT")
}

/// Shapes of tokens, each with the part to keep in front of the secret as its first group where there is one.
const SHAPES: &[&str] = &[
    // Private keys, whole; also one whose end is cut off.
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\z)",
    // Vendors' prefixes.
    r"\bsk-(?:ant-|proj-|or-v1-|svcacct-|live-|test-)?[A-Za-z0-9_-]{16,}",
    r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"\bxapp-[0-9]-[A-Za-z0-9-]{10,}",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\bya29\.[A-Za-z0-9_-]{20,}",
    r"\bA(?:KIA|SIA)[A-Z0-9]{16}\b",
    r"\bhf_[A-Za-z0-9]{20,}",
    r"\bgsk_[A-Za-z0-9]{20,}",
    r"\bxai-[A-Za-z0-9]{20,}",
    r"\bpplx-[A-Za-z0-9]{20,}",
    r"\bnvapi-[A-Za-z0-9_-]{20,}",
    r"\br8_[A-Za-z0-9]{20,}",
    r"\bnpm_[A-Za-z0-9]{30,}",
    r"\bpypi-[A-Za-z0-9_-]{40,}",
    r"\bdop_v1_[a-f0-9]{40,}",
    r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"\bdtn_[a-f0-9]{32,}",
    r"\ba[ks]-[A-Za-z0-9]{20,}",
    r"\btvly-[A-Za-z0-9_-]{16,}",
    r"\bfc-[a-f0-9]{32}\b",
    r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}",
    r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    // Where a secret stands.
    r#"(?i)(\bauthorization["']?\s*[:=]\s*["']?(?:bearer|basic|token)\s+)[A-Za-z0-9._~+/=-]{6,}"#,
    r#"(?i)(\b(?:x-)?api[-_]key["']?\s*[:=]\s*["']?)[A-Za-z0-9._~+/=-]{8,}"#,
    r"(\b(?:postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|ftp|smtps?)://[^\s:/@]*:)[^\s@]+@",
    r"(\bhttps?://)[A-Za-z0-9_.~%-]{8,}@",
];

static KNOWN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&SHAPES.join("|")).ok());

/// Replaces secrets in text: tokens of known shape, and values that are known to be secret.
#[derive(Clone, Default)]
pub struct Redactor {
    values: Option<Regex>,
}

impl Redactor {
    /// Makes one that also knows these values; those shorter than 8 bytes are not searched for.
    pub fn new<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> Self {
        let mut values: Vec<String> =
            values.into_iter().map(|value| value.as_ref().trim().to_owned()).filter(|value| value.len() >= SHORTEST).collect();
        // The longest first: a value may begin with another.
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        if values.is_empty() {
            return Self::default();
        }
        let alternatives: Vec<String> = values.iter().map(|value| regex::escape(value)).collect();
        let pattern = regex::RegexBuilder::new(&alternatives.join("|")).size_limit(1 << 28).build();
        Self { values: pattern.ok() }
    }

    /// Makes one that knows the values of the variables on the list.
    pub fn of_variables<'v, S: AsRef<str>>(variables: impl IntoIterator<Item = (&'v str, &'v str)>, list: &[S]) -> Self {
        Self::new(variables.into_iter().filter(|(name, _)| is_listed(name, list)).map(|(_, value)| value))
    }

    /// Gives the text without secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let first = match &self.values {
            Some(values) => values.replace_all(text, MASK),
            None => Cow::Borrowed(text),
        };
        let Some(known) = KNOWN.as_ref() else { return first };
        if !known.is_match(&first) {
            return first;
        }
        let masked = known.replace_all(&first, |found: &regex::Captures<'_>| {
            // What stands in front of the secret stays: the first group that took part.
            let kept = found.iter().skip(1).flatten().next().map_or("", |group| group.as_str());
            let end = if found.get(0).is_some_and(|whole| whole.as_str().ends_with('@')) { "@" } else { "" };
            format!("{kept}{MASK}{end}")
        });
        Cow::Owned(masked.into_owned())
    }
}

/// The values themselves are not shown.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_sound() {
        for shape in SHAPES {
            Regex::new(shape).unwrap();
        }
        assert!(KNOWN.is_some());
    }

    #[test]
    fn known_shapes_go() {
        let a = |n: usize| "aB3".repeat(n).chars().take(n).collect::<String>();
        let table = [
            (format!("key sk-ant-{} end", a(40)), "key [redacted] end".to_owned()),
            (format!("sk-{}", a(48)), MASK.to_owned()),
            (format!("ghp_{}", a(36)), MASK.to_owned()),
            (format!("push https://ghp_{}@github.com/x", a(36)), "push https://[redacted]@github.com/x".to_owned()),
            ("token xoxb-123456789012-abcdef".to_owned(), "token [redacted]".to_owned()),
            ("AKIAIOSFODNN7EXAMPLE".to_owned(), MASK.to_owned()),
            (format!("Authorization: Bearer {}", a(20)), "Authorization: Bearer [redacted]".to_owned()),
            (format!("curl -H 'x-api-key: {}'", a(20)), "curl -H 'x-api-key: [redacted]'".to_owned()),
            ("postgres://u:hunter2@db/x".to_owned(), "postgres://u:[redacted]@db/x".to_owned()),
            ("redis://:hunter2@db".to_owned(), "redis://:[redacted]@db".to_owned()),
            (format!("eyJ{}.eyJ{}.{}", a(10), a(10), a(20)), MASK.to_owned()),
            (format!("123456789:AA{}", a(33)), MASK.to_owned()),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n-----END OPENSSH PRIVATE KEY-----\nx".to_owned(), "[redacted]\nx".to_owned()),
            ("-----BEGIN RSA PRIVATE KEY-----\ncut off".to_owned(), MASK.to_owned()),
        ];
        for (text, expected) in table {
            assert_eq!(Redactor::default().text(&text), expected, "{text}");
        }
    }

    #[test]
    fn ordinary_text_stays() {
        for text in [
            "ls -la ~/.ssh && echo sk-8",
            "https://user:pw@example.org/?token=abc",
            "https://example.org/@scope/pkg",
            "git clone git@github.com:a/b.git",
            "task-management-system-with-a-long-name",
            "ask-me-anything-about-terminal-multiplexers",
            "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----",
            "commit 3f786850e387550fdab836ed7e6dc881de23001b",
            "12:34:56 user@host: done",
            "",
        ] {
            assert_eq!(Redactor::default().text(text), text);
        }
    }

    #[test]
    fn known_values_go_and_short_ones_stay() {
        let redactor = Redactor::new(["hunter2hunter2", "hunter2hunter2-more", "short", "a.b*c(d)e"]);
        assert_eq!(
            redactor.text("x hunter2hunter2-more y hunter2hunter2 z short a.b*c(d)e"),
            "x [redacted] y [redacted] z short [redacted]"
        );
        assert!(!format!("{redactor:?}").contains("hunter2"));
        let variables = [("OPENAI_API_KEY", "value-of-openai"), ("HOME", "/home/somebody")];
        let redactor = Redactor::of_variables(variables, &secret_names());
        assert_eq!(redactor.text("value-of-openai in /home/somebody"), "[redacted] in /home/somebody");
    }

    #[test]
    fn names_match() {
        let list = secret_names();
        for name in ["OPENAI_API_KEY", "SLACK_BOT_TOKEN", "AUXILIARY_VISION_API_KEY", "GATEWAY_RELAY_A_SECRET", "GH_TOKEN"] {
            assert!(is_listed(name, &list), "{name}");
        }
        for name in
            ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "PATH", "OPENAI_API_KEY2"]
        {
            assert!(!is_listed(name, &list), "{name}");
        }
        assert!(looks_secret("DB_PASSWORD") && looks_secret("SSH_KEY") && !looks_secret("PATH") && !looks_secret("KEYBOARD"));
    }
}
