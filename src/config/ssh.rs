//! Reads the keys of an ssh backend.
//!
//! Invariant: `user@host:port` in one word and the same in three keys give the same settings.

use super::fields::Fields;
use super::read::Reader;
use super::value::{Found, expand_home};
use super::{HostKeyPolicy, SshConfig, SshSettings};
use std::path::PathBuf;

const HOST: [&str; 2] = ["host", "ssh_host"];
const USER: [&str; 2] = ["user", "ssh_user"];
const PORT: [&str; 2] = ["port", "ssh_port"];
const KEYS: [&str; 5] = ["key", "keys", "identity_file", "key_path", "ssh_key"];

/// Reads them; the host is the backend's name when none is given.
pub(super) fn read<'r>(reader: &mut Reader<'r>, fields: &Fields<'r>, name: &str) -> SshSettings {
    let mut ssh = SshSettings { host: name.to_owned(), ..SshSettings::default() };
    let mut port_in_host = None;
    if let Some((key, node)) = fields.take_any(&HOST)
        && let Some(word) = fields.word(key, node, "a host's name or address")
        && let Some(followed) = follow(reader, fields, key, node.id, word)
    {
        match split_host(&followed) {
            Ok(parts) => {
                ssh.host = parts.host;
                ssh.user = parts.user;
                port_in_host = parts.port;
                ssh.port = parts.port;
            }
            Err(why) => fields.wrong(node.id, key, &unless_followed(word, &followed, why, "a host")),
        }
    }
    if let Some((key, node)) = fields.take_any(&USER)
        && let Some(word) = fields.word(key, node, "an account's name")
        && let Some(user) = follow(reader, fields, key, node.id, word)
    {
        if ssh.user.as_ref().is_some_and(|other| *other != user) {
            fields.wrong(node.id, key, "the host names another user: give one of them");
        } else if user.is_empty() || user.chars().any(|c| c.is_control() || c.is_whitespace()) {
            fields.wrong(node.id, key, "expected an account's name without spaces");
        } else {
            ssh.user = Some(user);
        }
    }
    if let Some((key, node)) = fields.take_any(&PORT)
        && let Some(port) = fields.whole_of(key, node, 1..=65_535)
    {
        let port = u16::try_from(port).ok();
        if port_in_host.is_some() && port_in_host != port {
            fields.wrong(node.id, key, "the host names another port: give one of them");
        }
        ssh.port = port;
    }
    if let Some((key, node)) = fields.take_any(&KEYS) {
        for (id, word) in fields.list_of(key, node) {
            ssh.keys.extend(path(reader, fields, key, id, word));
        }
    }
    ssh.agent = fields.flag("agent");
    for (id, word) in fields.list("known_hosts").unwrap_or_default() {
        ssh.known_hosts.extend(path(reader, fields, "known_hosts", id, word));
    }
    let policies = [("accept-new", HostKeyPolicy::AcceptNew), ("strict", HostKeyPolicy::Strict)];
    ssh.host_key = fields.choice("host_key", &policies);
    if let Some((key, node)) = fields.take_any(&["ssh_config"])
        && let Some(word) = fields.word(key, node, "usual, none, or the path of an ssh_config file")
    {
        ssh.ssh_config = match word {
            "usual" => SshConfig::Usual,
            "none" => SshConfig::Nothing,
            word => path(reader, fields, key, node.id, word).map_or(SshConfig::Usual, SshConfig::File),
        };
    }
    ssh
}

fn path<'r>(reader: &mut Reader<'r>, fields: &Fields<'r>, key: &str, id: u32, word: &str) -> Option<PathBuf> {
    let path = if word.starts_with("${") { follow(reader, fields, key, id, word)? } else { word.to_owned() };
    if path.starts_with("-----BEGIN") {
        fields.wrong(id, key, "expected the path of a key file, not the key itself");
        return None;
    }
    expand_home(&path, reader.secrets.home).map_err(|why| fields.wrong(id, key, &unless_followed(word, &path, why, "a path"))).ok()
}

/// Gives a message, but not one that tells what a reference led to.
fn unless_followed(word: &str, followed: &str, why: String, expected: &str) -> String {
    if word == followed { why } else { format!("what {word} stands for is not {expected}") }
}

/// Follows `${NAME}`; what it leads to is needed here, so that an unset variable is an error.
fn follow(reader: &Reader<'_>, fields: &Fields<'_>, key: &str, id: u32, word: &str) -> Option<String> {
    match reader.secrets.follow(word) {
        Ok(Found::Plain) => Some(word.to_owned()),
        Ok(Found::Secret(text)) => Some(text),
        Ok(Found::Unset(variable)) => {
            fields.wrong(id, key, &format!("{variable} is not set in the environment"));
            None
        }
        Err(why) => {
            fields.wrong(id, key, &why);
            None
        }
    }
}

/// The parts of `user@host:port`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HostParts {
    pub(crate) user: Option<String>,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
}

/// Splits `[ssh://][user@]host[:port]`; an IPv6 address with a port stands in brackets.
pub(crate) fn split_host(word: &str) -> Result<HostParts, String> {
    let shown = word.escape_debug().to_string();
    let expected = || format!("expected a host, user@host or user@host:port, found \"{shown}\"");
    let rest = word.strip_prefix("ssh://").map_or(word, |rest| rest.trim_end_matches('/'));
    let (user, rest) = match rest.rsplit_once('@') {
        Some(("", _)) => return Err(expected()),
        Some((user, rest)) => (Some(user.to_owned()), rest),
        None => (None, rest),
    };
    let (host, port) = if let Some(inner) = rest.strip_prefix('[') {
        let (host, after) = inner.split_once(']').ok_or_else(expected)?;
        let port = if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or_else(expected)?) };
        (host, port)
    } else if rest.matches(':').count() == 1 {
        rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port)))
    } else {
        (rest, None)
    };
    let legal = |text: &str| {
        !text.is_empty() && !text.starts_with('-') && !text.chars().any(|c| c.is_whitespace() || c.is_control() || "/\\@[]".contains(c))
    };
    if !legal(host) || user.as_deref().is_some_and(|user| user.chars().any(|c| c.is_whitespace() || c.is_control())) {
        return Err(expected());
    }
    let port = match port {
        Some(digits) => Some(
            digits
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| format!("expected a port from 1 to 65535, found \"{}\"", digits.escape_debug()))?,
        ),
        None => None,
    };
    Ok(HostParts { user, host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_split() {
        let parts = |user: Option<&str>, host: &str, port| Ok(HostParts { user: user.map(str::to_owned), host: host.to_owned(), port });
        let expected = |found: &str| Err(format!("expected a host, user@host or user@host:port, found \"{found}\""));
        let table = [
            ("gpu.lab", parts(None, "gpu.lab", None)),
            ("ada@gpu.lab", parts(Some("ada"), "gpu.lab", None)),
            ("ada@gpu.lab:2222", parts(Some("ada"), "gpu.lab", Some(2222))),
            ("ssh://ada@gpu.lab:22/", parts(Some("ada"), "gpu.lab", Some(22))),
            ("ada@corp.com@gpu", parts(Some("ada@corp.com"), "gpu", None)),
            ("10.0.0.1:22", parts(None, "10.0.0.1", Some(22))),
            ("fe80::1", parts(None, "fe80::1", None)),
            ("a@[fe80::1%eth0]:22", parts(Some("a"), "fe80::1%eth0", Some(22))),
            ("[::1]", parts(None, "::1", None)),
            ("", expected("")),
            ("@gpu", expected("@gpu")),
            ("-oProxyCommand=x", expected("-oProxyCommand=x")),
            ("a b", expected("a b")),
            ("[::1", expected("[::1")),
            ("[::1]22", expected("[::1]22")),
            (":22", expected(":22")),
            ("gpu:0", Err("expected a port from 1 to 65535, found \"0\"".to_owned())),
            ("gpu:x", Err("expected a port from 1 to 65535, found \"x\"".to_owned())),
            ("gpu:70000", Err("expected a port from 1 to 65535, found \"70000\"".to_owned())),
        ];
        for (word, expected) in table {
            assert_eq!(split_host(word), expected, "{word:?}");
        }
    }
}
