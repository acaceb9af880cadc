//! What an ssh_config says of one host, as values that can be used.
//!
//! Invariant: what only says what holds anyway is left out, so that without an ssh_config nothing is here.

use super::keywords;
use super::reader::Values;
use crate::config::{HostParts, split_host};
use russh::MethodKind;
use std::path::Path;
use std::time::Duration;

/// What it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Found {
    /// `HostName`.
    pub(in super::super) host_name: Option<String>,
    /// `User`.
    pub(in super::super) user: Option<String>,
    /// `Port`.
    pub(in super::super) port: Option<u16>,
    /// `IdentityFile`, with their tokens.
    pub(in super::super) identities: Option<Vec<String>>,
    /// `CertificateFile`, with their tokens.
    pub(in super::super) certificates: Vec<String>,
    /// `IdentitiesOnly`.
    pub(in super::super) identities_only: bool,
    /// `IdentityAgent`: `none`, a path, `SSH_AUTH_SOCK` or `$NAME`.
    pub(in super::super) agent: Option<String>,
    /// `ProxyJump` or `ProxyCommand`.
    pub(in super::super) proxy: Proxy,
    /// `UserKnownHostsFile`.
    pub(in super::super) user_known_hosts: Option<Vec<String>>,
    /// `GlobalKnownHostsFile`.
    pub(in super::super) global_known_hosts: Option<Vec<String>>,
    /// `HostKeyAlias`.
    pub(in super::super) host_key_alias: Option<String>,
    /// Whether `StrictHostKeyChecking` is yes.
    pub(in super::super) strict: bool,
    /// `ServerAliveInterval`, and how many may go unanswered.
    pub(in super::super) alive: Option<(Duration, usize)>,
    /// `ConnectTimeout`.
    pub(in super::super) connect_timeout: Option<Duration>,
    /// The ways to log in that may be tried, when that is not all of them in the usual order.
    pub(in super::super) methods: Option<Vec<MethodKind>>,
    /// `AddressFamily`: whether only IPv6 (else IPv4) is used.
    pub(in super::super) only_ipv6: Option<bool>,
    /// `BindAddress`.
    pub(in super::super) bind: Option<String>,
    /// `SetEnv`.
    pub(in super::super) set_env: Vec<(String, String)>,
}

/// What is between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Proxy {
    /// Nothing.
    #[default]
    None,
    /// Hosts, in the order in which they are reached, as written.
    Jump(String),
    /// A command.
    Command(String),
}

impl Proxy {
    /// The jump hosts as written; empty when there are none.
    pub(in super::super) fn jump(&self) -> &str {
        if let Self::Jump(text) = self { text } else { "" }
    }
}

/// The ways to log in, in OpenSSH's order.
pub(in super::super) const METHODS: [MethodKind; 3] = [MethodKind::PublicKey, MethodKind::KeyboardInteractive, MethodKind::Password];

/// Reads what `ssh -G` printed.
pub(super) fn printed(text: &str) -> Values {
    let mut values = Values::new();
    for line in text.lines() {
        let (keyword, value) = line.split_once(' ').unwrap_or((line, ""));
        // Another name of a key is not printed; keys without a bearing are not kept.
        if let Some((name, kind)) = keywords::find(keyword)
            && kind != keywords::Kind::Beside
        {
            let all = values.entry(name).or_default();
            if name.ends_with("knownhostsfile") { all.extend(paths(value)) } else { all.push(value.to_owned()) }
        }
    }
    values
}

/// Paths that stand in one line without quotes: each begins with `/` or `~`, so what does not belongs to the one before.
fn paths(joined: &str) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for word in joined.split(' ') {
        match paths.last_mut() {
            Some(last) if !word.starts_with(['/', '~']) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => paths.push(word.to_owned()),
        }
    }
    paths
}

impl Found {
    /// Takes the values; `home` is the account's home as OpenSSH knows it.
    pub(super) fn new(values: &Values, home: &Path) -> Result<Self, String> {
        let all = |name: &str| values.get(name).map(Vec::as_slice).unwrap_or_default();
        let one = |name: &str| all(name).first().map(String::as_str).filter(|v| !v.is_empty());
        let not_none = |name: &str| one(name).filter(|v| !v.eq_ignore_ascii_case("none"));
        let number = |name: &str| one(name).and_then(|v| v.parse::<u64>().ok());
        for refused in ["knownhostscommand", "revokedhostkeys"] {
            if let Some(value) = not_none(refused) {
                return Err(format!("`{refused} {value}` is not understood, and without it a host key might be trusted that must not be"));
            }
        }
        let proxy = match (not_none("proxyjump"), not_none("proxycommand")) {
            (Some(jump), _) => Proxy::Jump(jump.to_owned()),
            (None, Some(_)) if one("proxyusefdpass") == Some("yes") => {
                return Err("a ProxyCommand that hands over its socket (`ProxyUseFdpass`) is not understood".to_owned());
            }
            (None, Some(command)) => Proxy::Command(command.to_owned()),
            (None, None) => Proxy::None,
        };
        let list = |name: &str, usual: [String; 2]| {
            let files = all(name);
            let given = !files.is_empty() && files != usual;
            given.then(|| files.iter().filter(|f| !f.eq_ignore_ascii_case("none")).cloned().collect())
        };
        let dot_ssh = |name: &str| home.join(".ssh").join(name).display().to_string();
        let global = |name: &str| format!("/etc/ssh/{name}");
        let interval = number("serveraliveinterval").filter(|s| *s > 0);
        let pairs = all("setenv").iter().filter_map(|pair| pair.split_once('='));
        Ok(Self {
            host_name: one("hostname").map(str::to_owned),
            user: one("user").map(str::to_owned),
            port: number("port").and_then(|port| u16::try_from(port).ok()),
            identities: identities(all("identityfile")),
            certificates: all("certificatefile").iter().filter(|c| *c != "none").cloned().collect(),
            identities_only: one("identitiesonly") == Some("yes"),
            agent: one("identityagent").map(str::to_owned),
            proxy,
            user_known_hosts: list("userknownhostsfile", [dot_ssh("known_hosts"), dot_ssh("known_hosts2")]),
            global_known_hosts: list("globalknownhostsfile", [global("ssh_known_hosts"), global("ssh_known_hosts2")]),
            host_key_alias: one("hostkeyalias").map(str::to_owned),
            strict: one("stricthostkeychecking") == Some("true"),
            alive: interval.map(|s| {
                let count = number("serveralivecountmax").unwrap_or(3);
                (Duration::from_secs(s), usize::try_from(count).unwrap_or(usize::MAX))
            }),
            connect_timeout: number("connecttimeout").filter(|s| *s > 0).map(Duration::from_secs),
            methods: methods(values),
            only_ipv6: match one("addressfamily") {
                Some("inet") => Some(false),
                Some("inet6") => Some(true),
                _ => None,
            },
            bind: not_none("bindaddress").map(str::to_owned),
            set_env: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        })
    }
}

/// The key files, unless they are the usual ones, which OpenSSH lists when none is given.
fn identities(files: &[String]) -> Option<Vec<String>> {
    let usual = |name: &str| files.iter().any(|file| file.strip_prefix("~/.ssh/") == Some(name));
    let all_usual = files.iter().all(|file| file.starts_with("~/.ssh/id_"));
    if files.is_empty() || (all_usual && files.len() > 3 && ["id_rsa", "id_ecdsa", "id_ed25519"].into_iter().all(usual)) {
        return None;
    }
    Some(files.iter().filter(|file| *file != "none").cloned().collect())
}

fn methods(values: &Values) -> Option<Vec<MethodKind>> {
    let one = |name: &str| values.get(name).and_then(|v| v.first()).map(String::as_str);
    let on = |method: &MethodKind| {
        let name = match method {
            MethodKind::PublicKey => "pubkeyauthentication",
            MethodKind::KeyboardInteractive => "kbdinteractiveauthentication",
            _ => "passwordauthentication",
        };
        !matches!(one(name), Some("no" | "false"))
    };
    let wanted: Vec<MethodKind> = match one("preferredauthentications") {
        Some(list) => list.split(',').filter_map(|name| METHODS.into_iter().find(|m| <&str>::from(m) == name.trim())).collect(),
        None => METHODS.to_vec(),
    };
    let methods: Vec<MethodKind> = wanted.into_iter().filter(on).collect();
    (methods != METHODS).then_some(methods)
}

/// One of the hosts of a `ProxyJump`.
pub(in super::super) fn jump(text: &str) -> Result<HostParts, String> {
    split_host(text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Found {
        Found::new(&printed(text), "/root".as_ref()).expect(text)
    }

    #[test]
    fn what_holds_anyway_is_left_out() {
        let usual = "identityfile ~/.ssh/id_rsa\nidentityfile ~/.ssh/id_ecdsa\nidentityfile ~/.ssh/id_ecdsa_sk\nidentityfile ~/.ssh/id_ed25519\n\
                     globalknownhostsfile /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2\nuserknownhostsfile /root/.ssh/known_hosts \
                     /root/.ssh/known_hosts2\nconnecttimeout none\nserveraliveinterval 0\nserveralivecountmax 3\naddressfamily any\n\
                     kbdinteractiveauthentication yes\npasswordauthentication yes\npubkeyauthentication true\nstricthostkeychecking ask\n";
        assert_eq!(found(usual), Found::default());
    }

    #[test]
    fn values_are_taken() {
        let f = found(
            "identityfile ~/.ssh/id_rsa\nidentityfile ~/.ssh/id_ed25519\nuserknownhostsfile /a b /c\nproxyjump a@x:2,y\nproxycommand nc",
        );
        assert_eq!(f.identities, Some(vec!["~/.ssh/id_rsa".to_owned(), "~/.ssh/id_ed25519".to_owned()]));
        assert_eq!(f.user_known_hosts, Some(vec!["/a b".to_owned(), "/c".to_owned()]));
        assert_eq!(f.proxy, Proxy::Jump("a@x:2,y".to_owned()));
        assert_eq!(found("identityfile none").identities, Some(Vec::new()));
        assert_eq!(found("proxyjump none\nproxycommand none").proxy, Proxy::None);
        assert_eq!(
            found("preferredauthentications password,publickey,gssapi").methods,
            Some(vec![MethodKind::Password, MethodKind::PublicKey])
        );
        assert_eq!(found("passwordauthentication no\npubkeyauthentication false").methods, Some(vec![MethodKind::KeyboardInteractive]));
        assert_eq!(found("serveraliveinterval 7\nserveralivecountmax 2").alive, Some((Duration::from_secs(7), 2)));
        assert_eq!(found("setenv A=b c").set_env, [("A".to_owned(), "b c".to_owned())]);
    }

    #[test]
    fn what_would_weaken_the_check_of_host_keys_is_refused() {
        for text in ["revokedhostkeys /etc/revoked", "knownhostscommand /bin/x", "proxycommand x\nproxyusefdpass yes"] {
            assert!(Found::new(&printed(text), "/root".as_ref()).is_err(), "{text}");
        }
    }
}
