//! The keywords of ssh_config, and what our own reader does with each.
//!
//! Invariant: a keyword that is not here is not passed over: what it would mean is not known.

/// How a keyword's value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One word; the first holds.
    Word,
    /// The rest of the line as it is; the first holds.
    Rest,
    /// The hosts to jump over; the first of it and `ProxyCommand` holds.
    Jump,
    /// yes or no, or another of these words.
    Flag(&'static [&'static str]),
    /// A whole number.
    Number,
    /// A time: seconds, or with units; or `none`.
    Time,
    /// Words; the first line holds.
    Words,
    /// One word a line, all of them hold.
    Each,
    /// `NAME=VALUE` words; the first line holds.
    Pairs,
    /// Has no bearing on how a host is reached.
    Beside,
    /// Has a bearing that only OpenSSH knows, unless it has this value.
    Foreign(&'static str),
}

/// Keywords with a bearing, by the name that `ssh -G` gives them.
const KNOWN: [(&str, Kind); 36] = [
    ("addressfamily", Kind::Flag(&["any", "inet", "inet6"])),
    ("bindaddress", Kind::Word),
    ("bindinterface", Kind::Foreign("none")),
    ("canonicalizehostname", Kind::Foreign("no")),
    ("certificatefile", Kind::Each),
    ("connecttimeout", Kind::Time),
    ("globalknownhostsfile", Kind::Words),
    ("hostkeyalias", Kind::Word),
    ("hostname", Kind::Word),
    ("identitiesonly", Kind::Flag(&[])),
    ("identityagent", Kind::Word),
    ("identityfile", Kind::Each),
    ("kbdinteractiveauthentication", Kind::Flag(&[])),
    ("knownhostscommand", Kind::Rest),
    ("passwordauthentication", Kind::Flag(&[])),
    ("port", Kind::Number),
    ("preferredauthentications", Kind::Word),
    ("proxycommand", Kind::Rest),
    ("proxyjump", Kind::Jump),
    ("proxyusefdpass", Kind::Flag(&[])),
    ("pubkeyauthentication", Kind::Flag(&["unbound", "host-bound"])),
    ("refuseconnection", Kind::Foreign("none")),
    ("revokedhostkeys", Kind::Word),
    ("serveralivecountmax", Kind::Number),
    ("serveraliveinterval", Kind::Time),
    ("setenv", Kind::Pairs),
    ("stricthostkeychecking", Kind::Flag(&["ask", "off", "accept-new"])),
    ("tag", Kind::Foreign("none")),
    ("user", Kind::Word),
    ("userknownhostsfile", Kind::Words),
    // Other names of the same.
    ("challengeresponseauthentication", Kind::Flag(&[])),
    ("skeyauthentication", Kind::Flag(&[])),
    ("tisauthentication", Kind::Flag(&[])),
    ("dsaauthentication", Kind::Flag(&["unbound", "host-bound"])),
    ("identityfile2", Kind::Each),
    ("userknownhostsfile2", Kind::Beside),
];

const BESIDE: &str = "addkeystoagent afstokenpassing batchmode canonicaldomains canonicalizefallbacklocal canonicalizemaxdots \
    canonicalizepermittedcnames casignaturealgorithms channeltimeout checkhostip cipher ciphers clearallforwardings compression \
    compressionlevel connectionattempts controlmaster controlpath controlpersist dynamicforward enableescapecommandline \
    enablesshkeysign escapechar exitonforwardfailure fallbacktorsh fingerprinthash forkafterauthentication forwardagent forwardx11 \
    forwardx11timeout forwardx11trusted gatewayports globalknownhostsfile2 gssapiauthentication gssapiclientidentity \
    gssapidelegatecredentials gssapikexalgorithms gssapikeyexchange gssapirenewalforcesrekey gssapiserveridentity gssapitrustdns \
    hashknownhosts hostbasedacceptedalgorithms hostbasedauthentication hostbasedkeytypes hostkeyalgorithms ipqos \
    kbdinteractivedevices keepalive kerberosauthentication kerberostgtpassing kexalgorithms localcommand localforward loglevel \
    logverbose macs nohostauthenticationforlocalhost numberofpasswordprompts obscurekeystroketiming permitlocalcommand \
    permitremoteopen pkcs11provider protocol pubkeyacceptedalgorithms pubkeyacceptedkeytypes rekeylimit remotecommand remoteforward \
    requesttty requiredrsasize rhostsauthentication rhostsrsaauthentication rsaauthentication securitykeyprovider sendenv \
    sessiontype smartcarddevice stdinnull streamlocalbindmask streamlocalbindunlink syslogfacility tcpkeepalive tunnel tunneldevice \
    updatehostkeys useprivilegedport useroaming usersh verifyhostkeydns versionaddendum visualhostkey warnweakcrypto xauthlocation";

/// Finds a keyword (in lower case): the name it is kept under, and how.
pub(super) fn find(keyword: &str) -> Option<(&'static str, Kind)> {
    let (name, kind) = KNOWN
        .iter()
        .copied()
        .find(|(name, _)| *name == keyword)
        .or_else(|| BESIDE.split_ascii_whitespace().find(|name| *name == keyword).map(|name| (name, Kind::Beside)))?;
    let name = match name {
        "challengeresponseauthentication" | "skeyauthentication" | "tisauthentication" => "kbdinteractiveauthentication",
        "dsaauthentication" => "pubkeyauthentication",
        "identityfile2" => "identityfile",
        name => name,
    };
    Some((name, kind))
}
