//! What stands for something else in an ssh_config: `%h`, `~`, `${NAME}`.
//!
//! Invariant: a token that OpenSSH would refuse is refused here too, never left as it is.

use ring::digest;
use std::path::{Path, PathBuf};

/// Tokens of file names.
pub(in super::super) const OF_FILES: &str = "CdhijkLlnpru";
/// Tokens of `ProxyCommand` and `ProxyJump`.
pub(in super::super) const OF_PROXIES: &str = "hknpr";

/// What tokens stand for.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Facts {
    /// `%h`: where the connection goes.
    pub(in super::super) host: String,
    /// `%n`: the host as it was asked for.
    pub(in super::super) original: String,
    /// `%p`.
    pub(in super::super) port: u16,
    /// `%r`: the account there.
    pub(in super::super) user: String,
    /// `%k`: the name its host keys are known by.
    pub(in super::super) alias: Option<String>,
    /// `%j`: the hosts in between.
    pub(in super::super) jump: String,
    /// `%d`: the home folder here.
    pub(in super::super) home: PathBuf,
    /// `%u`: the account here.
    pub(in super::super) local_user: String,
}

impl Facts {
    fn of(&self, token: char) -> Option<String> {
        let this = || nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Some(match token {
            'h' => self.host.clone(),
            'n' => self.original.clone(),
            'p' => self.port.to_string(),
            'r' => self.user.clone(),
            'k' => self.alias.clone().unwrap_or_else(|| self.original.clone()),
            'j' => self.jump.clone(),
            'd' => self.home.display().to_string(),
            'u' => self.local_user.clone(),
            'i' => nix::unistd::getuid().to_string(),
            'l' => this(),
            'L' => this().split('.').next().unwrap_or_default().to_owned(),
            'C' => {
                let text = format!("{}{}{}{}{}", this(), self.host, self.port, self.user, self.jump);
                let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
                hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
            }
            _ => return None,
        })
    }

    /// Replaces the tokens of a text.
    pub(in super::super) fn expand(&self, text: &str, allowed: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            match rest.next() {
                Some('%') => out.push('%'),
                Some(token) if allowed.contains(token) => out.push_str(&self.of(token).unwrap_or_default()),
                Some(token) => return Err(format!("%{token} in `{text}` stands for nothing there")),
                None => return Err(format!("`{text}` ends in the middle of a token")),
            }
        }
        Ok(out)
    }

    /// Makes the name of a file out of what stands in an ssh_config; variables are asked for with `variable`.
    pub(in super::super) fn file(&self, text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<PathBuf, String> {
        let home = tilde(text, &self.home)?;
        // Variables first: what they hold may have a percent sign, so it is doubled.
        let mut out = String::new();
        let mut rest = home.as_str();
        while let Some(at) = rest.find("${") {
            let (before, after) = rest.split_at(at);
            let (name, after) = after[2..].split_once('}').ok_or_else(|| format!("`{text}` has a `${{` without its end"))?;
            let value = variable(name).ok_or_else(|| format!("the variable {name} in `{text}` is not set"))?;
            out.push_str(before);
            out.push_str(&value.replace('%', "%%"));
            rest = after;
        }
        out.push_str(rest);
        Ok(PathBuf::from(self.expand(&out, OF_FILES)?))
    }
}

/// Replaces a leading `~` or `~NAME` by a home folder.
pub(super) fn tilde(text: &str, home: &Path) -> Result<String, String> {
    let Some(rest) = text.strip_prefix('~') else { return Ok(text.to_owned()) };
    let (name, tail) = rest.split_once('/').unwrap_or((rest, ""));
    let folder = match name {
        "" => home.to_path_buf(),
        name => {
            let user = nix::unistd::User::from_name(name).ok().flatten();
            user.map(|user| user.dir).ok_or_else(|| format!("there is no account {name}, whose home `{text}` names"))?
        }
    };
    Ok(folder.join(tail).display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_replaced_or_refused() {
        let facts = Facts {
            host: "10.0.0.7".into(),
            original: "gpu".into(),
            port: 2222,
            user: "ada".into(),
            home: "/home/ada".into(),
            local_user: "al".into(),
            ..Facts::default()
        };
        let variable = |name: &str| (name == "KEYS").then(|| "/k%h".to_owned());
        let file = |text: &str| facts.file(text, variable).map(|path| path.display().to_string());
        let table = [
            ("~/.ssh/%h-%p-%r-%n-%k-%u%%", Ok("/home/ada/.ssh/10.0.0.7-2222-ada-gpu-gpu-al%")),
            ("~", Ok("/home/ada/")),
            ("%d/x%j", Ok("/home/ada/x")),
            ("${KEYS}/a", Ok("/k%h/a")),
            ("a/~/b", Ok("a/~/b")),
            ("$KEYS", Ok("$KEYS")),
            ("${NO}/a", Err("the variable NO in `${NO}/a` is not set")),
            ("%x", Err("%x in `%x` stands for nothing there")),
            ("a%", Err("`a%` ends in the middle of a token")),
            ("~no-such-account/x", Err("there is no account no-such-account, whose home `~no-such-account/x` names")),
        ];
        for (text, expected) in table {
            assert_eq!(file(text).as_deref().map_err(String::as_str), expected, "{text}");
        }
        assert_eq!(file("%C").map(|hash| hash.len()), Ok(40));
        assert_eq!(facts.expand("nc %h %p", OF_PROXIES).as_deref(), Ok("nc 10.0.0.7 2222"));
        assert!(facts.expand("nc %d", OF_PROXIES).is_err());
    }
}
